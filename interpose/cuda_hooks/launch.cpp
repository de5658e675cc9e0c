// Every way to launch a kernel. What is wrong is told before the original is called: it may not come back.

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "interpose/cuda/launch_events.h"

using devtrace::events::passes;
using devtrace::interpose::Call;
using devtrace::interpose::emit_launch;
using devtrace::interpose::emit_refused_launch;
using devtrace::interpose::Handle;
using devtrace::interpose::shape;

namespace {

// CUDA refuses a launch on a stream of a device that is not current. All that this costs a launch is a comparison.
template <class Result>
bool refused(const Call& call, Result result) {
  static_assert(static_cast<int>(CUDA_ERROR_INVALID_HANDLE) == static_cast<int>(cudaErrorInvalidResourceHandle));
  if (static_cast<int>(result) != CUDA_ERROR_INVALID_HANDLE) [[likely]]
    return false;
  return call.after() && call.outermost();
}

// Apart, as what is rare: the hook only keeps its arguments, as they came.
[[gnu::noinline]] void emit_runtime_launch(const void* function, Handle handle, dim3 grid, dim3 block,
                                           cudaStream_t stream, void** parameters) {
  emit_launch(function, handle, shape(grid, block), {stream}, parameters);
}
[[gnu::noinline]] void emit_refused_runtime_launch(const void* function, Handle handle, dim3 grid, dim3 block,
                                                   cudaStream_t stream, void** parameters) {
  emit_refused_launch(function, handle, shape(grid, block), {stream}, parameters);
}

}  // namespace

#define RUNTIME_LAUNCH(symbol, handle)                                                                                 \
  RUNTIME_HOOK(symbol,                                                                                                 \
               (const void* function, dim3 grid, dim3 block, void** parameters, size_t shared, cudaStream_t stream)) { \
    const Call call;                                                                                                   \
    if (call.before() && !passes(function, parameters)) [[unlikely]]                                                   \
      emit_runtime_launch(function, handle, grid, block, stream, parameters);                                          \
    const auto result = CALL_RUNTIME(symbol, (function, grid, block, parameters, shared, stream));                     \
    if (refused(call, result)) [[unlikely]] {                                                                          \
      emit_refused_runtime_launch(function, handle, grid, block, stream, parameters);                                  \
      return cudaErrorInvalidResourceHandle;                                                                           \
    }                                                                                                                  \
    return result;                                                                                                     \
  }
RUNTIME_LAUNCH(cudaLaunchKernel, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchKernel_ptsz, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel_ptsz, Handle::stub)

// What nvcc 13 makes of <<<…>>>; in no public header.
RUNTIME_LAUNCH(__cudaLaunchKernel, Handle::kernel)
RUNTIME_LAUNCH(__cudaLaunchKernel_ptsz, Handle::kernel)

#define RUNTIME_LAUNCH_EX(symbol)                                                                                  \
  RUNTIME_HOOK(symbol, (const cudaLaunchConfig_t* config, const void* function, void** parameters)) {              \
    const Call call;                                                                                               \
    if (call.before() && config && !passes(function, parameters))                                                  \
      emit_launch(function, Handle::stub, shape(config->gridDim, config->blockDim), {config->stream}, parameters); \
    const auto result = CALL_RUNTIME(symbol, (config, function, parameters));                                      \
    if (config && refused(call, result))                                                                           \
      emit_refused_launch(function, Handle::stub, shape(config->gridDim, config->blockDim), {config->stream},      \
                          parameters);                                                                             \
    return result;                                                                                                 \
  }
RUNTIME_LAUNCH_EX(cudaLaunchKernelExC)
RUNTIME_LAUNCH_EX(cudaLaunchKernelExC_ptsz)

#define DRIVER_LAUNCH(symbol)                                                                                       \
  DRIVER_HOOK(symbol, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
                       unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra)) {           \
    const Call call;                                                                                                \
    if (call.before() && !passes(function, parameters))                                                             \
      emit_launch(function, Handle::function, {{gx, gy, gz}, {bx, by, bz}}, {stream}, parameters, extra);           \
    const auto result = CALL_DRIVER(symbol, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)); \
    if (refused(call, result))                                                                                      \
      emit_refused_launch(function, Handle::function, {{gx, gy, gz}, {bx, by, bz}}, {stream}, parameters, extra);   \
    return result;                                                                                                  \
  }
DRIVER_LAUNCH(cuLaunchKernel)
DRIVER_LAUNCH(cuLaunchKernel_ptsz)

#define DRIVER_LAUNCH_COOPERATIVE(symbol)                                                                    \
  DRIVER_HOOK(symbol, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                       unsigned bz, unsigned shared, CUstream stream, void** parameters)) {                  \
    const Call call;                                                                                         \
    if (call.before() && !passes(function, parameters))                                                      \
      emit_launch(function, Handle::function, {{gx, gy, gz}, {bx, by, bz}}, {stream}, parameters);           \
    const auto result = CALL_DRIVER(symbol, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters)); \
    if (refused(call, result))                                                                               \
      emit_refused_launch(function, Handle::function, {{gx, gy, gz}, {bx, by, bz}}, {stream}, parameters);   \
    return result;                                                                                           \
  }
DRIVER_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel)
DRIVER_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

#define DRIVER_LAUNCH_EX(symbol)                                                                              \
  DRIVER_HOOK(symbol, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra)) { \
    const Call call;                                                                                          \
    if (call.before() && config && !passes(function, parameters))                                             \
      emit_launch(function, Handle::function, shape(*config), {config->hStream}, parameters, extra);          \
    const auto result = CALL_DRIVER(symbol, (config, function, parameters, extra));                           \
    if (config && refused(call, result))                                                                      \
      emit_refused_launch(function, Handle::function, shape(*config), {config->hStream}, parameters, extra);  \
    return result;                                                                                            \
  }
DRIVER_LAUNCH_EX(cuLaunchKernelEx)
DRIVER_LAUNCH_EX(cuLaunchKernelEx_ptsz)

// One kernel on several devices at once: each on its stream's device, and most are not the current one.
DRIVER_HOOK(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS * launches, unsigned count, unsigned flags)) {
  const Call call;
  if (call.before() && devtrace::events::wants_launches())
    for (unsigned i = 0; launches && i < count; ++i)
      emit_launch(launches[i].function, Handle::function, shape(launches[i]),
                  {launches[i].hStream, false, devtrace::interpose::device_of_stream(launches[i].hStream)},
                  launches[i].kernelParams);
  return CALL_DRIVER(cuLaunchCooperativeKernelMultiDevice, (launches, count, flags));
}

// Up to CUDA 12 the runtime has it as well.
namespace devtrace::interpose {
struct MultiDeviceLaunch {  // cudaLaunchParams, which CUDA 13's header has no more
  void* function;
  dim3 grid;
  dim3 block;
  void** parameters;
  size_t shared;
  cudaStream_t stream;
};
}  // namespace devtrace::interpose
using devtrace::interpose::MultiDeviceLaunch;
extern "C" cudaError_t CUDARTAPI cudaLaunchCooperativeKernelMultiDevice(MultiDeviceLaunch*, unsigned, unsigned);
RUNTIME_HOOK(cudaLaunchCooperativeKernelMultiDevice, (MultiDeviceLaunch * launches, unsigned count, unsigned flags)) {
  const Call call;
  if (call.before() && devtrace::events::wants_launches())
    for (unsigned i = 0; launches && i < count; ++i)
      emit_launch(launches[i].function, Handle::stub, shape(launches[i].grid, launches[i].block),
                  {launches[i].stream, false, devtrace::interpose::device_of_stream(launches[i].stream)},
                  launches[i].parameters);
  return CALL_RUNTIME(cudaLaunchCooperativeKernelMultiDevice, (launches, count, flags));
}
