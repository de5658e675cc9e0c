// Devices and errors of the runtime API.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "simulate/cudart/runtime.h"

namespace devtrace::simulate::runtime {

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

}  // namespace devtrace::simulate::runtime

using namespace devtrace::simulate::runtime;

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
#define FIELD(field, attribute) \
  p->field = static_cast<std::remove_reference_t<decltype(p->field)>>(ask(CU_DEVICE_ATTRIBUTE_##attribute));
#include "simulate/cudart/properties.inc"
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
  CALL(quiet_cuInit(0));
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
