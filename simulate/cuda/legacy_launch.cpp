// Launches as they were before CUDA 4, whose parameters are set one by one in the function, and the one that launched a
// kernel on several devices at once.
#define __CUDA_API_VERSION_INTERNAL
#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simulate/cuda/api.h"
#include "simulate/cuda/launch.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

struct Pending {
  unsigned block[3] = {1, 1, 1};
  unsigned shared = 0;
  std::vector<unsigned char> parameters;
};
std::mutex g_mutex;
std::unordered_map<CUfunction, Pending> g_pending;

CUresult set(CUfunction function, int offset, const void* value, size_t bytes) {
  TRY(ready());
  if (!simulate::function_of(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (offset < 0 || offset + bytes > 4096 || !value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_mutex);
  auto& parameters = g_pending[function].parameters;
  parameters.resize(std::max(parameters.size(), offset + bytes));
  std::memcpy(parameters.data() + offset, value, bytes);
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, int width, int height, CUstream stream) {
  TRY(ready());
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  Pending pending;
  {
    std::lock_guard lock(g_mutex);
    pending = g_pending[function];
  }
  size_t bytes = pending.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, pending.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  return simulate::launch_kernel(function,
                                 {{static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
                                  {pending.block[0], pending.block[1], pending.block[2]},
                                  pending.shared},
                                 stream, nullptr, extra);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  TRY(ready());
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_mutex);
  Pending& pending = g_pending[function];
  pending.block[0] = static_cast<unsigned>(x);
  pending.block[1] = static_cast<unsigned>(y);
  pending.block[2] = static_cast<unsigned>(z);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  TRY(ready());
  std::lock_guard lock(g_mutex);
  g_pending[function].shared = bytes;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuParamSetSize(CUfunction function, unsigned bytes) {
  TRY(ready());
  std::lock_guard lock(g_mutex);
  g_pending[function].parameters.resize(bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuParamSeti(CUfunction function, int offset, unsigned value) {
  return set(function, offset, &value, sizeof value);
}
CUresult CUDAAPI cuParamSetf(CUfunction function, int offset, float value) {
  return set(function, offset, &value, sizeof value);
}
CUresult CUDAAPI cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  return set(function, offset, value, bytes);
}
CUresult CUDAAPI cuLaunch(CUfunction function) {
  return launch(function, 1, 1, nullptr);
}
CUresult CUDAAPI cuLaunchGrid(CUfunction function, int width, int height) {
  return launch(function, width, height, nullptr);
}
CUresult CUDAAPI cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return launch(function, width, height, stream);
}

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned count, unsigned) {
  TRY(ready());
  if (!launches || !count) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& l = launches[i];
    CUcontext context;
    TRY(cuStreamGetCtx(l.hStream, &context));
    TRY(cuCtxPushCurrent_v2(context));
    CUresult result = simulate::launch_kernel(
        l.function,
        {{l.gridDimX, l.gridDimY, l.gridDimZ}, {l.blockDimX, l.blockDimY, l.blockDimZ}, l.sharedMemBytes, true},
        l.hStream, l.kernelParams, nullptr);
    cuCtxPopCurrent_v2(&context);
    TRY(result);
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
