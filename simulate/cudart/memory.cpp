// Memory of the runtime API. Pools and IPC included; arrays are in array.cpp.
#include <cstring>

#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

namespace {

CUdeviceptr at(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// cudaErrorInvalidValue: the driver does not know it.
cudaError_t check_known(const void* pointer) {
  unsigned type;
  return static_cast<cudaError_t>(quiet_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(pointer)));
}

// The stated direction: a side that is said to be the device's must be memory that the driver knows. A side said to be
// the host's may be anything, as with unified addressing the driver finds out by itself.
cudaError_t check_kind(const void* to, const void* from, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device) CALL(check_known(to));
  return from_device ? check_known(from) : cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  CALL(ensure());
  if (size == 0) return cudaSuccess;
  if (!to || !from) return done(cudaErrorInvalidValue);
  CALL(check_kind(to, from, kind));
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return done(wait ? cuMemcpyHtoD(at(to), from, size) : cuMemcpyHtoDAsync(at(to), from, size, stream));
    case cudaMemcpyDeviceToHost:
      return done(wait ? cuMemcpyDtoH(to, at(from), size) : cuMemcpyDtoHAsync(to, at(from), size, stream));
    case cudaMemcpyDeviceToDevice:
      return done(wait ? cuMemcpyDtoD(at(to), at(from), size) : cuMemcpyDtoDAsync(at(to), at(from), size, stream));
    default:
      return done(wait ? cuMemcpy(at(to), at(from), size) : cuMemcpyAsync(at(to), at(from), size, stream));
  }
}

struct Peers {
  CUcontext to = nullptr, from = nullptr;
  CUresult find(int to_device, int from_device) {
    if (CUresult e = ensure()) return e;
    CUdevice d;
    if (CUresult e = quiet_cuDeviceGet(&d, to_device)) return e;
    if (CUresult e = quiet_cuDeviceGet(&d, from_device)) return e;
    if (CUresult e = primary(to_device, &to)) return e;
    return primary(from_device, &from);
  }
};

cudaError_t copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                    cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  CALL(ensure());
  if (width == 0 || height == 0) return cudaSuccess;
  if (!to || !from) return done(cudaErrorInvalidValue);
  if (width > to_pitch || width > from_pitch) return done(cudaErrorInvalidPitchValue);
  CALL(check_kind(to, from, kind));
  CUDA_MEMCPY2D c = {};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = at(from);
  c.srcPitch = from_pitch;
  c.dstDevice = at(to);
  c.dstPitch = to_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return done(wait ? cuMemcpy2D(&c) : cuMemcpy2DAsync(&c, stream));
}

CUmemLocation location(cudaMemLocation l) {
  CUmemLocation c = {};
  c.type = static_cast<CUmemLocationType>(l.type);
  c.id = l.id;
  return c;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** pointer, size_t size) {
  CALL(ensure());
  if (!pointer) return done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (size == 0) return cudaSuccess;
  return done(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), size));
}
cudaError_t CUDARTAPI cudaFree(void* pointer) {
  FORWARD(cuMemFree(at(pointer)));
}

cudaError_t CUDARTAPI cudaMallocHost(void** pointer, size_t size) {
  return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}
cudaError_t CUDARTAPI cudaHostAlloc(void** pointer, size_t size, unsigned int flags) {
  CALL(ensure());
  if (!pointer) return done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (size == 0) return cudaSuccess;
  return done(cuMemHostAlloc(pointer, size, flags));
}
cudaError_t CUDARTAPI cudaFreeHost(void* pointer) {
  CALL(ensure());
  return pointer ? done(cuMemFreeHost(pointer)) : cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostRegister(void* pointer, size_t size, unsigned int flags) {
  FORWARD(cuMemHostRegister(pointer, size, flags));
}
cudaError_t CUDARTAPI cudaHostUnregister(void* pointer) {
  FORWARD(cuMemHostUnregister(pointer));
}
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  FORWARD(cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device), host, flags));
}
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int* flags, void* host) {
  FORWARD(cuMemHostGetFlags(flags, host));
}

cudaError_t CUDARTAPI cudaMallocManaged(void** pointer, size_t size, unsigned int flags) {
  FORWARD(cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(pointer), size, flags));
}
cudaError_t CUDARTAPI cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  CALL(ensure());
  if (!pointer || !pitch) return done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (!width || !height) return cudaSuccess;
  return done(cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(pointer), pitch, width, height, 4));
}
cudaError_t CUDARTAPI cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  if (!pointer) return done(cudaErrorInvalidValue);
  pointer->xsize = extent.width;
  pointer->ysize = extent.height;
  return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, extent.height * extent.depth);
}
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total) {
  FORWARD(cuMemGetInfo(free, total));
}

cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return copy(to, from, size, kind, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy(to, from, size, kind, stream, false);
}
cudaError_t CUDARTAPI cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                   size_t height, cudaMemcpyKind kind) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                        size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}
cudaError_t CUDARTAPI cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t size) {
  Peers p;
  CALL(p.find(to_device, from_device));
  return done(size ? cuMemcpyPeer(at(to), p.to, at(from), p.from, size) : CUDA_SUCCESS);
}
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                                          cudaStream_t stream) {
  Peers p;
  CALL(p.find(to_device, from_device));
  return done(size ? cuMemcpyPeerAsync(at(to), p.to, at(from), p.from, size, stream) : CUDA_SUCCESS);
}
#if CUDART_VERSION < 13000
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes*,
                                           size_t*, size_t, size_t* failed, cudaStream_t stream) {
#else
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                                           cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  size_t* failed = nullptr;
#endif
  for (size_t i = 0; i < count; ++i)
    if (cudaError_t e = copy(to[i], from[i], sizes[i], cudaMemcpyDefault, stream, false)) {
      if (failed) *failed = i;
      return e;
    }
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemset(void* pointer, int value, size_t count) {
  FORWARD(cuMemsetD8(at(pointer), static_cast<unsigned char>(value), count));
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* pointer, int value, size_t count, cudaStream_t stream) {
  FORWARD(cuMemsetD8Async(at(pointer), static_cast<unsigned char>(value), count, stream));
}
cudaError_t CUDARTAPI cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  FORWARD(cuMemsetD2D8(at(pointer), pitch, static_cast<unsigned char>(value), width, height));
}
cudaError_t CUDARTAPI cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                                        cudaStream_t stream) {
  FORWARD(cuMemsetD2D8Async(at(pointer), pitch, static_cast<unsigned char>(value), width, height, stream));
}
cudaError_t CUDARTAPI cudaMemset3DAsync(cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream) {
  CALL(ensure());
  for (size_t z = 0; z < extent.depth; ++z)
    CALL(cuMemsetD2D8Async(at(p.ptr) + z * p.pitch * p.ysize, p.pitch, static_cast<unsigned char>(value), extent.width,
                           extent.height, stream));
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent extent) {
  cudaError_t e = cudaMemset3DAsync(p, value, extent, nullptr);
  return e ? e : cudaStreamSynchronize(nullptr);
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  CALL(ensure());
  if (!attributes) return done(cudaErrorInvalidValue);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;  // cudaInvalidDeviceId
  unsigned type, managed = 0;
  if (!pointer || cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(pointer))) return cudaSuccess;
  cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at(pointer));
  cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at(pointer));
  attributes->type = managed                        ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                    : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (attributes->type != cudaMemoryTypeDevice) attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemAdvise(const void* pointer, size_t count, cudaMemoryAdvise advice, cudaMemLocation l) {
  FORWARD(cuMemAdvise(at(pointer), count, static_cast<CUmem_advise>(advice), location(l)));
}
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void* pointer, size_t count, cudaMemLocation l, unsigned int flags,
                                           cudaStream_t stream) {
  FORWARD(cuMemPrefetchAsync(at(pointer), count, location(l), flags, stream));
}

cudaError_t CUDARTAPI cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  CALL(ensure());
  if (!pointer) return done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (size == 0) return cudaSuccess;
  return done(cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(pointer), size, stream));
}
cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  FORWARD(cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(pointer), size, pool, stream));
}
cudaError_t CUDARTAPI cudaFreeAsync(void* pointer, cudaStream_t stream) {
  CALL(ensure());
  return pointer ? done(cuMemFreeAsync(at(pointer), stream)) : cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetDefaultMemPool(pool, device));
}
cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceGetMemPool(pool, device));
}
cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  CALL(quiet_cuInit(0));
  return done(cuDeviceSetMemPool(device, pool));
}
cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
  FORWARD(cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)));
}
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t pool) {
  FORWARD(cuMemPoolDestroy(pool));
}
cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  FORWARD(cuMemPoolTrimTo(pool, keep));
}
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  FORWARD(cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}
cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  FORWARD(cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptors, size_t count) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  FORWARD(cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(descriptors), count));
}
cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                         cudaMemAllocationHandleType type, unsigned int flags) {
  FORWARD(cuMemPoolExportToShareableHandle(handle, pool, static_cast<CUmemAllocationHandleType>(type), flags));
}
cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                           cudaMemAllocationHandleType type, unsigned int flags) {
  FORWARD(cuMemPoolImportFromShareableHandle(pool, handle, static_cast<CUmemAllocationHandleType>(type), flags));
}
cudaError_t CUDARTAPI cudaMemPoolExportPointer(cudaMemPoolPtrExportData* exported, void* pointer) {
  static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));
  FORWARD(cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(exported), at(pointer)));
}
cudaError_t CUDARTAPI cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* exported) {
  FORWARD(cuMemPoolImportPointer(reinterpret_cast<CUdeviceptr*>(pointer), pool,
                                 reinterpret_cast<CUmemPoolPtrExportData*>(exported)));
}
cudaError_t CUDARTAPI cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* l) {
  FORWARD(cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool, reinterpret_cast<CUmemLocation*>(l)));
}

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  FORWARD(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), at(pointer)));
}
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
  CALL(ensure());
  CUipcMemHandle h;
  static_assert(sizeof h == sizeof handle);
  std::memcpy(&h, &handle, sizeof h);
  return done(cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(pointer), h, flags));
}
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void* pointer) {
  FORWARD(cuIpcCloseMemHandle(at(pointer)));
}

}  // extern "C"
