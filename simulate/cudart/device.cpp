// Devices and errors of the runtime API.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "simulate/cudart/runtime.h"

namespace devtrace::simulate::cudart {

thread_local cudaError_t last_error = cudaSuccess;

namespace {

thread_local int t_chosen = 0;  // by cudaSetDevice or cudaInitDevice, while no context is current

}  // namespace

CUresult primary(int device, CUcontext* context) {
  static std::recursive_mutex mutex;  // recursive: a profiler that is told of the retain may call the runtime
  static CUcontext contexts[64];
  std::lock_guard lock(mutex);
  int active = 0;
  unsigned flags = 0;
  if (CUresult e = quiet_cuDevicePrimaryCtxGetState(device, &flags, &active)) return e;
  if (!contexts[device] || !active)
    if (CUresult e = cuDevicePrimaryCtxRetain(&contexts[device], device)) return e;
  *context = contexts[device];
  return CUDA_SUCCESS;
}

namespace {

CUresult choose(int device, bool make_current) {
  if (CUresult e = quiet_cuInit(0)) return e;
  CUdevice d;
  if (CUresult e = quiet_cuDeviceGet(&d, device)) return e;
  CUcontext context;
  if (CUresult e = primary(device, &context)) return e;
  t_chosen = device;
  return make_current ? cuCtxSetCurrent(context) : CUDA_SUCCESS;
}

}  // namespace

CUresult ensure() {
  CUcontext context = nullptr;
  if (quiet_cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) {
    unsigned flags;
    int device, active;
    // After cudaDeviceReset the context is still current but was given up: the next call brings it back.
    if (quiet_cuCtxGetDevice(&device) || quiet_cuDevicePrimaryCtxGetState(device, &flags, &active) || active)
      return CUDA_SUCCESS;
    return choose(device, true);
  }
  return choose(t_chosen, true);
}

int current_device() {
  CUdevice device;
  return quiet_cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : t_chosen;
}

}  // namespace devtrace::simulate::cudart

using namespace devtrace::simulate::cudart;

namespace {

void fill_properties(cudaDeviceProp* p, int device) {
  auto ask = [&](CUdevice_attribute attribute) {
    int value = 0;
    cuDeviceGetAttribute(&value, attribute, device);
    return value;
  };
  std::memset(p, 0, sizeof *p);
  cuDeviceGetName(p->name, sizeof p->name, device);
  cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&p->uuid), device);
  cuDeviceTotalMem(&p->totalGlobalMem, device);
// The fields and the attributes they come from; the last few are not in every version.
#define FIELD(field, attribute) \
  p->field = static_cast<std::remove_reference_t<decltype(p->field)>>(ask(CU_DEVICE_ATTRIBUTE_##attribute))
  FIELD(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
  FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
  FIELD(warpSize, WARP_SIZE);
  FIELD(memPitch, MAX_PITCH);
  FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
  FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X);
  FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
  FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
  FIELD(maxGridSize[0], MAX_GRID_DIM_X);
  FIELD(maxGridSize[1], MAX_GRID_DIM_Y);
  FIELD(maxGridSize[2], MAX_GRID_DIM_Z);
  FIELD(totalConstMem, TOTAL_CONSTANT_MEMORY);
  FIELD(major, COMPUTE_CAPABILITY_MAJOR);
  FIELD(minor, COMPUTE_CAPABILITY_MINOR);
  FIELD(textureAlignment, TEXTURE_ALIGNMENT);
  FIELD(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT);
  FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT);
  FIELD(integrated, INTEGRATED);
  FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY);
  FIELD(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH);
  FIELD(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH);
  FIELD(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT);
  FIELD(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH);
  FIELD(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT);
  FIELD(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH);
  FIELD(surfaceAlignment, SURFACE_ALIGNMENT);
  FIELD(concurrentKernels, CONCURRENT_KERNELS);
  FIELD(ECCEnabled, ECC_ENABLED);
  FIELD(pciBusID, PCI_BUS_ID);
  FIELD(pciDeviceID, PCI_DEVICE_ID);
  FIELD(pciDomainID, PCI_DOMAIN_ID);
  FIELD(tccDriver, TCC_DRIVER);
  FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT);
  FIELD(unifiedAddressing, UNIFIED_ADDRESSING);
  FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
  FIELD(l2CacheSize, L2_CACHE_SIZE);
  FIELD(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE);
  FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
  FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
  FIELD(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED);
  FIELD(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED);
  FIELD(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  FIELD(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
  FIELD(managedMemory, MANAGED_MEMORY);
  FIELD(isMultiGpuBoard, MULTI_GPU_BOARD);
  FIELD(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED);
  FIELD(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS);
  FIELD(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
  FIELD(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED);
  FIELD(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  FIELD(cooperativeLaunch, COOPERATIVE_LAUNCH);
  FIELD(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  FIELD(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  FIELD(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  FIELD(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
  FIELD(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE);
  FIELD(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
  FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
  FIELD(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED);
  FIELD(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED);
  FIELD(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
  FIELD(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED);
  FIELD(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES);
  FIELD(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  FIELD(ipcEventSupported, IPC_EVENT_SUPPORTED);
  FIELD(clusterLaunch, CLUSTER_LAUNCH);
  FIELD(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS);
#if CUDART_VERSION >= 13000
  FIELD(deviceNumaConfig, NUMA_CONFIG);
  FIELD(deviceNumaId, NUMA_ID);
  FIELD(mpsEnabled, MPS_ENABLED);
  FIELD(hostNumaId, HOST_NUMA_ID);
#else
  FIELD(clockRate, CLOCK_RATE);
  FIELD(memoryClockRate, MEMORY_CLOCK_RATE);
  FIELD(computeMode, COMPUTE_MODE);
  FIELD(deviceOverlap, GPU_OVERLAP);
  FIELD(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT);
  FIELD(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
  FIELD(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH);
#endif
#undef FIELD
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
  return last_error;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  if (!count) return done(cudaErrorInvalidValue);
  *count = 0;
  CALL(devtrace_sim_initialize());
  return done(cuDeviceGetCount(count));
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  if (!device) return done(cudaErrorInvalidValue);
  CALL(quiet_cuInit(0));
  *device = current_device();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return done(choose(device, true));
}
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int, unsigned int) {
  return done(choose(device, false));
}
cudaError_t CUDARTAPI cudaSetValidDevices(int*, int) {
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaChooseDevice(int* device, const cudaDeviceProp*) {
  if (!device) return done(cudaErrorInvalidValue);
  CALL(quiet_cuInit(0));
  *device = 0;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!properties) return done(cudaErrorInvalidValue);
  CALL(quiet_cuInit(0));
  CUdevice d;
  CALL(quiet_cuDeviceGet(&d, device));
  fill_properties(properties, device);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* id, int length, int device) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetPCIBusId(id, length, device));
}
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int* device, const char* id) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetByPCIBusId(device, id));
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceCanAccessPeer(can, device, peer));
}
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  CALL(ensure());
  CUdevice d;
  CALL(quiet_cuDeviceGet(&d, peer));
  if (peer == current_device()) return done(cudaErrorInvalidDevice);
  CUcontext context;
  CALL(primary(peer, &context));
  return done(cuCtxEnablePeerAccess(context, flags));
}
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  CALL(ensure());
  CUdevice d;
  CALL(quiet_cuDeviceGet(&d, peer));
  CUcontext context;
  CALL(primary(peer, &context));
  return done(cuCtxDisablePeerAccess(context));
}
cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), from, to));
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  CALL(ensure());
  return done(cuCtxSynchronize());
}
cudaError_t CUDARTAPI cudaDeviceReset(void) {
  CALL(ensure());
  return done(cuDevicePrimaryCtxReset(current_device()));
}
cudaError_t CUDARTAPI cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  CALL(ensure());
  return done(cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}
cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  CALL(ensure());
  return done(cuCtxGetLimit(value, static_cast<CUlimit>(limit)));
}
cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  CALL(ensure());
  return done(cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config)));
}
cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(cudaFuncCache config) {
  CALL(ensure());
  return done(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)));
}
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  CALL(ensure());
  return done(cuCtxGetStreamPriorityRange(least, greatest));
}
cudaError_t CUDARTAPI cudaCtxResetPersistingL2Cache(void) {
  CALL(ensure());
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int* flags) {
  CALL(ensure());
  return done(cuCtxGetFlags(flags));
}
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags) {
  CALL(quiet_cuInit(0));
  return done(cuDevicePrimaryCtxSetFlags(current_device(), flags));
}
cudaError_t CUDARTAPI cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget,
                                                         cudaFlushGPUDirectRDMAWritesScope) {
  CALL(ensure());
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  return done(cuDriverGetVersion(version));
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  if (!version) return done(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int version,
                                                       unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* status) {
  CUdriverProcAddressQueryResult found;
  CUresult e = cuGetProcAddress(name, function, static_cast<int>(version), flags, &found);
  if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return done(e);
}
cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, status);
}

// Of cuda_profiler_api.h, which the wheels leave out.
#pragma GCC visibility push(default)
cudaError_t CUDARTAPI cudaProfilerStart(void) {
  CALL(ensure());
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaProfilerStop(void) {
  CALL(ensure());
  return cudaSuccess;
}
#pragma GCC visibility pop

}  // extern "C"
