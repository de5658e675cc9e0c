// CUDA's own way to load a tool: CUDA_INJECTION64_PATH names a library, which the driver opens when it starts and whose
// InitializeInjection it calls. That is also the moment to subscribe to CUPTI: nothing has been allocated yet.

#include "interpose/injection.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "cupti_tracer/tracer.h"
#include "interpose/cuda/intercepted_hook.h"
#include "interpose/devtrace.h"
#include "interpose/linking/original.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/thread_state.h"

namespace {

using devtrace::Backend;
using devtrace::options;
using devtrace::warn;

constexpr const char* kVariable = "CUDA_INJECTION64_PATH";

bool preloaded() {
  return !devtrace::interpose::loaded_late();
}

void start() {
  const bool hooked = preloaded();
  const Backend wished = options().backend;
  if (hooked && wished != Backend::cupti) return;
  if (!hooked && wished == Backend::interpose)
    return warn(
        "backend=interpose, but the library was loaded through CUDA_INJECTION64_PATH, which is too late for that: "
        "nothing will be seen; start the program with 'devtrace run' or LD_PRELOAD=libdevtrace.so");
  std::string why;
  if (devtrace::cupti_tracer::start(hooked, why)) {
    devtrace::interpose::mute(true);
    if (!hooked)
      warn(
          "loaded through CUDA_INJECTION64_PATH: launches and copies are seen; PyTorch's own refusals and where "
          "tensors "
          "were made are only with 'devtrace run' or LD_PRELOAD=libdevtrace.so");
  } else if (hooked) {
    warn(why + ": going on with interposition; what is lost are the times of copies between devices");
  } else {
    warn(why + ": nothing will be seen; start the program with 'devtrace run' or LD_PRELOAD=libdevtrace.so");
  }
}

}  // namespace

namespace devtrace::interpose {

void ask_cuda_for_injection() {
  const char* const text = std::getenv("DEVTRACE_OPTIONS");
  if (!text || !std::strstr(text, "backend=") || options().backend != Backend::cupti || !preloaded()) return;
  Dl_info ours{};
  if (!::dladdr(reinterpret_cast<void*>(&devtrace_version), &ours) || !ours.dli_fname) return;
  char path[PATH_MAX];  // the program may change its directory before it uses CUDA
  if (::realpath(ours.dli_fname, path)) ::setenv(kVariable, path, 0);
}

const char* backend() {
  return muted.load() != 0 ? "cupti" : "interpose";
}

void leave_cupti() {
  if (muted.load() == 0) return;
  cupti_tracer::stop();
  mute(false);
}

void forget_cupti_in_child() {
  cupti_tracer::after_fork_in_child();
  mute(false);
}

}  // namespace devtrace::interpose

// Returns 1, success: the driver must go on, whatever has become of the tool.
extern "C" DEVTRACE_EXPORT int InitializeInjection() {
  try {
    const devtrace::ReentrancyGuard inside;
    start();
    if (devtrace::verbose())
      devtrace::explain("CUDA asked for its injected library: %s; backend: %s",
                        preloaded() ? "preloaded, too" : "not preloaded", devtrace::interpose::backend());
  } catch (...) {  // out of memory
  }
  return 1;
}
