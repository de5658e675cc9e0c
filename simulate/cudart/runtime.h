// What every file of the runtime API includes. The runtime is a thin layer over the driver API, as the real one is. Its
// calls to the driver go to aliases (driver_aliases.inc, generated) that no preloaded tool interposes: the real
// runtime, too, calls the driver through pointers that it looked up itself.
#pragma once

#include "driver_aliases.inc"
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
#include "simulate/cudart/names.h"

// What the runtime asks the driver for its own sake: a profiler is told of no such call.
#define QUIET(name) extern "C" decltype(::name) quiet_##name __asm__("devtrace_sim_quiet_" #name)
QUIET(cuInit);
QUIET(cuDeviceGet);
QUIET(cuCtxGetCurrent);
QUIET(cuCtxGetDevice);
QUIET(cuDevicePrimaryCtxGetState);
QUIET(cuPointerGetAttribute);
QUIET(cuKernelGetName);
#undef QUIET

namespace devtrace::simulate::runtime {

// The thread's error, as cudaGetLastError gives it.
extern thread_local cudaError_t last_error;

inline cudaError_t done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
// The driver's codes are the runtime's, but for the two that the runtime has its own meaning for.
inline cudaError_t done(CUresult result) {
  return done(static_cast<cudaError_t>(result));
}

// Initialises the driver, and gives the thread a device's primary context if it has none.
CUresult ensure();
// A device's primary context, retained once for the life of the process, like the runtime's own.
CUresult primary(int device, CUcontext* context);
// The device that the thread is on; 0 before any choice.
int current_device();

}  // namespace devtrace::simulate::runtime

// Returns the error from the calling runtime function.
#define CALL(expression)                                                                \
  do {                                                                                  \
    if (auto failed_ = (expression)) return devtrace::simulate::runtime::done(failed_); \
  } while (0)
