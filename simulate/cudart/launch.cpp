// Kernels of the runtime API: launches, attributes, occupancy, symbols.
#include <cstring>
#include <vector>

#include "simulate/cudart/api_declarations.h"
#include "simulate/cudart/registry.h"

using namespace devtrace::simulate::runtime;

namespace {

CUfunction function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

bool bad_shape(dim3 grid, dim3 block) {
  return !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z || grid.y > 65535 || grid.z > 65535 ||
         block.x > 1024 || block.y > 1024 || block.z > 64 || static_cast<size_t>(block.x) * block.y * block.z > 1024;
}

cudaError_t check(CUkernel kernel, dim3 grid, dim3 block) {
  CALL(ensure());
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  return bad_shape(grid, block) ? done(cudaErrorInvalidConfiguration) : cudaSuccess;
}

cudaError_t launch(CUkernel kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  if (cudaError_t e = check(kernel, grid, block)) return e;
  return done(cuLaunchKernel(function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                             static_cast<unsigned>(shared), stream, arguments, nullptr));
}

// A stub or a cudaKernel_t: calls that take `const void* func` accept both.
CUkernel either(const void* handle) {
  if (CUkernel k = kernel_of(handle)) return k;
  const char* name;
  auto k = reinterpret_cast<CUkernel>(const_cast<void*>(handle));
  return handle && quiet_cuKernelGetName(&name, k) == CUDA_SUCCESS ? k : nullptr;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
// What <<<…>>> said, for the stub that is called next. A plain array: no destructor at thread exit.
constexpr int kDepth = 16;
thread_local Configuration t_configurations[kDepth];
thread_local int t_depth = 0;

CUlaunchConfig driver_config(const cudaLaunchConfig_t& c) {
  CUlaunchConfig d = {};
  d.gridDimX = c.gridDim.x;
  d.gridDimY = c.gridDim.y;
  d.gridDimZ = c.gridDim.z;
  d.blockDimX = c.blockDim.x;
  d.blockDimY = c.blockDim.y;
  d.blockDimZ = c.blockDim.z;
  d.sharedMemBytes = static_cast<unsigned>(c.dynamicSmemBytes);
  d.hStream = c.stream;
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  d.attrs = reinterpret_cast<CUlaunchAttribute*>(c.attrs);
  d.numAttrs = c.numAttrs;
  return d;
}

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  if (t_depth == kDepth) return 1;
  t_configurations[t_depth++] = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (t_depth == 0) return done(cudaErrorMissingConfiguration);
  const Configuration& c = t_configurations[--t_depth];
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<void**>(stream) = c.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  CALL(quiet_cuInit(0));
  *kernel = kernel_of(stub);
  return *kernel ? cudaSuccess : done(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                                       cudaStream_t stream) {
  CALL(ensure());
  return launch(either(stub), grid, block, arguments, shared, stream);
}
cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                  size_t shared, cudaStream_t stream) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  if (cudaError_t e = check(kernel, grid, block)) return e;
  return done(cuLaunchCooperativeKernel(function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                        static_cast<unsigned>(shared), stream, arguments));
}
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  CALL(ensure());
  if (!config) return done(cudaErrorInvalidValue);
  CUkernel kernel = either(stub);
  if (cudaError_t e = check(kernel, config->gridDim, config->blockDim)) return e;
  const CUlaunchConfig c = driver_config(*config);
  return done(cuLaunchKernelEx(&c, function(kernel), arguments, nullptr));
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  CALL(quiet_cuInit(0));
  if (!kernel) return done(cudaErrorInvalidValue);
  *kernel = kernel_of(stub);
  return *kernel ? cudaSuccess : done(cudaErrorInvalidDeviceFunction);
}
cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t* f, const void* stub) {
  CALL(ensure());
  CUkernel kernel = kernel_of(stub);
  if (!f) return done(cudaErrorInvalidValue);
  *f = function(kernel);
  return kernel ? cudaSuccess : done(cudaErrorInvalidDeviceFunction);
}
cudaError_t CUDARTAPI cudaFuncGetName(const char** name, const void* stub) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  return kernel ? done(cuKernelGetName(name, kernel)) : done(cudaErrorInvalidDeviceFunction);
}
cudaError_t CUDARTAPI cudaFuncGetParamInfo(const void* stub, size_t index, size_t* offset, size_t* size) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  return kernel ? done(cuKernelGetParamInfo(kernel, index, offset, size)) : done(cudaErrorInvalidDeviceFunction);
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes* a, const void* stub) {
  CALL(ensure());
  if (!a) return done(cudaErrorInvalidValue);
  CUkernel kernel = either(stub);
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  auto ask = [&](CUfunction_attribute attribute) {
    int value = 0;
    cuFuncGetAttribute(&value, attribute, function(kernel));
    return value;
  };
  std::memset(a, 0, sizeof *a);
  a->sharedSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  a->constSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  a->localSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  a->maxThreadsPerBlock = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  a->numRegs = ask(CU_FUNC_ATTRIBUTE_NUM_REGS);
  a->ptxVersion = ask(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  a->binaryVersion = ask(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  a->maxDynamicSharedSizeBytes = ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  a->preferredShmemCarveout = ask(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  return done(cuFuncSetAttribute(function(kernel), static_cast<CUfunction_attribute>(attribute), value));
}
cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void* stub, cudaFuncCache) {
  CALL(ensure());
  return either(stub) ? cudaSuccess : done(cudaErrorInvalidDeviceFunction);
}
cudaError_t CUDARTAPI cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                                      int device) {
  CALL(ensure());
  return done(cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel, device));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                                             size_t shared, unsigned int flags) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  return done(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function(kernel), threads, shared, flags));
}
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads,
                                                                    size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, shared, 0);
}
cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* stub, int blocks,
                                                                int threads) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  return done(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function(kernel), blocks, threads));
}
static cudaError_t clusters(CUresult (*ask)(int*, CUfunction, const CUlaunchConfig*), int* answer, const void* stub,
                            const cudaLaunchConfig_t* config) {
  CALL(ensure());
  CUkernel kernel = either(stub);
  if (!kernel) return done(cudaErrorInvalidDeviceFunction);
  if (!config) return done(cudaErrorInvalidValue);
  CUlaunchConfig c = driver_config(*config);
  return done(ask(answer, function(kernel), &c));
}
cudaError_t CUDARTAPI cudaOccupancyMaxActiveClusters(int* count, const void* stub, const cudaLaunchConfig_t* config) {
  return clusters(cuOccupancyMaxActiveClusters, count, stub, config);
}
cudaError_t CUDARTAPI cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub,
                                                           const cudaLaunchConfig_t* config) {
  return clusters(cuOccupancyMaxPotentialClusterSize, size, stub, config);
}

cudaError_t CUDARTAPI cudaGetSymbolAddress(void** pointer, const void* symbol) {
  if (!pointer) return done(cudaErrorInvalidValue);
  return done(variable_of(symbol, reinterpret_cast<CUdeviceptr*>(pointer), nullptr));
}
cudaError_t CUDARTAPI cudaGetSymbolSize(size_t* size, const void* symbol) {
  if (!size) return done(cudaErrorInvalidValue);
  return done(variable_of(symbol, nullptr, size));
}

}  // extern "C"

namespace {

// A piece of a device variable.
cudaError_t piece(const void* symbol, size_t offset, size_t count, void** pointer) {
  CUdeviceptr base;
  size_t size;
  CALL(variable_of(symbol, &base, &size));
  if (offset > size || count > size - offset) return done(cudaErrorInvalidValue);
  *pointer = reinterpret_cast<void*>(base + offset);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void* symbol, const void* from, size_t count, size_t offset,
                                         cudaMemcpyKind kind) {
  void* to;
  if (cudaError_t e = piece(symbol, offset, count, &to)) return e;
  return cudaMemcpy(to, from, count, kind);
}
cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void* to, const void* symbol, size_t count, size_t offset,
                                           cudaMemcpyKind kind) {
  void* from;
  if (cudaError_t e = piece(symbol, offset, count, &from)) return e;
  return cudaMemcpy(to, from, count, kind);
}
cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t count, size_t offset,
                                              cudaMemcpyKind kind, cudaStream_t stream) {
  void* to;
  if (cudaError_t e = piece(symbol, offset, count, &to)) return e;
  return cudaMemcpyAsync(to, from, count, kind, stream);
}
cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t count, size_t offset,
                                                cudaMemcpyKind kind, cudaStream_t stream) {
  void* from;
  if (cudaError_t e = piece(symbol, offset, count, &from)) return e;
  return cudaMemcpyAsync(to, from, count, kind, stream);
}

}  // extern "C"
