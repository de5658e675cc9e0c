// What every file of the runtime API includes. The runtime is a thin layer over the driver API, as the real one is. Its
// calls to the driver go to aliases (driver_aliases.inc, generated) that no preloaded tool interposes: the real
// runtime, too, calls the driver through pointers that it looked up itself.
#pragma once

#include "driver_aliases.inc"
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

// The sources are written against the names of CUDA 13. Where CUDA 12 exports the same function under a numbered name,
// its plain name has older parameters: those are in cuda12/.
#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#define cudaGraphAddNode cudaGraphAddNode_v2
#endif

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
extern "C" void devtrace_sim_kernels_came();    // values/install.cpp
extern "C" CUresult devtrace_sim_initialize();  // cuInit(0) without true values; cuda/device.cpp

namespace devtrace::simulate::cudart {

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

// A copy between arrays and pitched memory, as the driver has it: sizes and offsets of an array's side are in elements
// in the runtime, bytes in the driver.
cudaError_t convert(const cudaMemcpy3DParms& from, CUDA_MEMCPY3D* to);

}  // namespace devtrace::simulate::cudart

// Returns the error from the calling runtime function.
#define CALL(expression)                                                               \
  do {                                                                                 \
    if (auto failed_ = (expression)) return devtrace::simulate::cudart::done(failed_); \
  } while (0)

// The body of a function: gives the thread a context; then it is the driver's call of the same name.
#define FORWARD(...) \
  CALL(ensure());    \
  return done(__VA_ARGS__)
