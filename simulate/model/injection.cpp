#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "simulate/common/callbacks.h"
#include "simulate/model/profiler_callbacks.h"

namespace devtrace::simulate {
namespace {

const char* path() {
  const char* value = std::getenv("CUDA_INJECTION64_PATH");
  return value && *value ? value : nullptr;
}

std::atomic<bool> g_done{false};
std::recursive_mutex g_mutex;  // recursive: the profiler's own calls come back here

void load(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    std::fprintf(stderr, "devtrace: CUDA_INJECTION64_PATH: %s\n", dlerror());
    return;
  }
  auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (!initialize)
    std::fprintf(stderr, "devtrace: CUDA_INJECTION64_PATH: %s has no InitializeInjection\n", file);
  else
    initialize();
}

}  // namespace

bool injection_pending() {
  return !g_done.load(std::memory_order_acquire) && path();
}

bool inject() {
  if (g_done.load(std::memory_order_acquire)) return false;
  static bool begun = false;
  std::lock_guard lock(g_mutex);
  if (begun) return false;
  begun = true;
  if (const char* file = path()) {
    load(file);
    for (uint32_t callback = 0; callback < kMostCallbacks; ++callback)
      devtrace_sim_calls_want(kRuntime, callback, kWantInjection, 0);
  }
  g_done.store(true, std::memory_order_release);
  return true;
}

}  // namespace devtrace::simulate

extern "C" void devtrace_sim_inject(void) {
  if (devtrace::simulate::injection_pending()) cuInit(0);
}
