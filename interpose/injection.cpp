// CUDA's own way to load a tool: CUDA_INJECTION64_PATH names a library, which the driver opens when it starts and whose
// InitializeInjection it calls.

#include <dlfcn.h>

#include "interpose/devtrace.h"
#include "interpose/original.h"
#include "tracker/say.h"

// A library that is opened late stands behind the real functions in every look-up, so none of its hooks is ever called.
// Returns 1, success: the driver must go on, whatever has become of the tool.
extern "C" DEVTRACE_EXPORT int InitializeInjection() {
  const bool preloaded = ::dlsym(RTLD_DEFAULT, "devtrace_version") == reinterpret_cast<void*>(&devtrace_version);
  if (!preloaded)
    devtrace::say(
        "loaded through CUDA_INJECTION64_PATH, which comes too late to see anything: start the program with "
        "'devtrace run' or LD_PRELOAD=libdevtrace.so");
  return 1;
}
