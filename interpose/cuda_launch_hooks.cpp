// Every way to launch a kernel. What is wrong is told before the original is called: it may not come back.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda_hook.h"
#include "interpose/cuda_kernels.h"
#include "tracker/events.h"

namespace events = devtrace::events;
using devtrace::interpose::Handle;
using devtrace::interpose::Nested;

namespace {

struct Shape {
  unsigned grid[3];
  unsigned block[3];
};

events::Launch described(const void* function, Handle handle, const Shape& shape, const void* stream) {
  events::Launch launch;
  launch.function = function;
  launch.kernel = devtrace::interpose::kernel_of(function, handle);
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = shape.grid[i];
    launch.block_shape[i] = shape.block[i];
  }
  launch.stream = stream;
  return launch;
}

void tell(const void* function, Handle handle, const Shape& shape, const void* stream, void** parameters) {
  if (!parameters || !events::wants_launches()) return;
  events::Launch launch = described(function, handle, shape, stream);
  launch.parameters = parameters;
  events::launched(launch);
}

// The driver's other way to pass parameters: one block, described by a list of keys and values.
void tell(const void* function, const Shape& shape, const void* stream, void** parameters, void** extra) {
  if (parameters) return tell(function, Handle::function, shape, stream, parameters);
  if (!extra || !events::wants_launches()) return;
  events::Launch launch = described(function, Handle::function, shape, stream);
  for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
    if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) launch.block = entry[1];
    if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) launch.block_bytes = *static_cast<const size_t*>(entry[1]);
  }
  if (launch.block) events::launched(launch);
}

Shape shape(dim3 grid, dim3 block) {
  return {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
}

}  // namespace

#define RUNTIME_LAUNCH(symbol, handle)                                                                                 \
  RUNTIME_HOOK(symbol,                                                                                                 \
               (const void* function, dim3 grid, dim3 block, void** parameters, size_t shared, cudaStream_t stream)) { \
    const Nested nested;                                                                                               \
    if (!nested.inner()) tell(function, handle, shape(grid, block), stream, parameters);                               \
    return CALL_RUNTIME(symbol, (function, grid, block, parameters, shared, stream));                                  \
  }
RUNTIME_LAUNCH(cudaLaunchKernel, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchKernel_ptsz, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel, Handle::stub)
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel_ptsz, Handle::stub)

// What nvcc 13 makes of <<<…>>>; in no public header.
RUNTIME_LAUNCH(__cudaLaunchKernel, Handle::kernel)
RUNTIME_LAUNCH(__cudaLaunchKernel_ptsz, Handle::kernel)

#define RUNTIME_LAUNCH_EX(symbol)                                                                         \
  RUNTIME_HOOK(symbol, (const cudaLaunchConfig_t* config, const void* function, void** parameters)) {     \
    const Nested nested;                                                                                  \
    if (!nested.inner() && config)                                                                        \
      tell(function, Handle::stub, shape(config->gridDim, config->blockDim), config->stream, parameters); \
    return CALL_RUNTIME(symbol, (config, function, parameters));                                          \
  }
RUNTIME_LAUNCH_EX(cudaLaunchKernelExC)
RUNTIME_LAUNCH_EX(cudaLaunchKernelExC_ptsz)

#define DRIVER_LAUNCH(symbol)                                                                                \
  DRIVER_HOOK(symbol, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                       unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra)) {    \
    const Nested nested;                                                                                     \
    if (!nested.inner()) tell(function, {{gx, gy, gz}, {bx, by, bz}}, stream, parameters, extra);            \
    return CALL_DRIVER(symbol, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra));       \
  }
DRIVER_LAUNCH(cuLaunchKernel)
DRIVER_LAUNCH(cuLaunchKernel_ptsz)

#define DRIVER_LAUNCH_COOPERATIVE(symbol)                                                                    \
  DRIVER_HOOK(symbol, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                       unsigned bz, unsigned shared, CUstream stream, void** parameters)) {                  \
    const Nested nested;                                                                                     \
    if (!nested.inner()) tell(function, {{gx, gy, gz}, {bx, by, bz}}, stream, parameters, nullptr);          \
    return CALL_DRIVER(symbol, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters));              \
  }
DRIVER_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel)
DRIVER_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

#define DRIVER_LAUNCH_EX(symbol)                                                                              \
  DRIVER_HOOK(symbol, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra)) { \
    const Nested nested;                                                                                      \
    if (!nested.inner() && config)                                                                            \
      tell(function,                                                                                          \
           {{config->gridDimX, config->gridDimY, config->gridDimZ},                                           \
            {config->blockDimX, config->blockDimY, config->blockDimZ}},                                       \
           config->hStream, parameters, extra);                                                               \
    return CALL_DRIVER(symbol, (config, function, parameters, extra));                                        \
  }
DRIVER_LAUNCH_EX(cuLaunchKernelEx)
DRIVER_LAUNCH_EX(cuLaunchKernelEx_ptsz)
