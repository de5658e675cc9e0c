// Arrays, textures and three-dimensional copies of the runtime API.
#include <algorithm>
#include <cstring>

#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

namespace {

CUarray handle(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray*>(array));
}
CUmipmappedArray handle(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray*>(array));
}

bool format(const cudaChannelFormatDesc& d, CUDA_ARRAY3D_DESCRIPTOR* out) {
  out->NumChannels = static_cast<unsigned>((d.x > 0) + (d.y > 0) + (d.z > 0) + (d.w > 0));
  switch (d.f) {
    case cudaChannelFormatKindSigned:
      out->Format = d.x == 8    ? CU_AD_FORMAT_SIGNED_INT8
                    : d.x == 16 ? CU_AD_FORMAT_SIGNED_INT16
                                : CU_AD_FORMAT_SIGNED_INT32;
      return true;
    case cudaChannelFormatKindUnsigned:
      out->Format = d.x == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
                    : d.x == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
                                : CU_AD_FORMAT_UNSIGNED_INT32;
      return true;
    case cudaChannelFormatKindFloat:
      out->Format = d.x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
      return true;
    default:
      return false;
  }
}

// Bytes of an array's element; 0 for a dead handle.
size_t element(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR* d) {
  if (cuArray3DGetDescriptor(d, handle(array))) return 0;
  size_t bytes = d->Format == CU_AD_FORMAT_SIGNED_INT8 || d->Format == CU_AD_FORMAT_UNSIGNED_INT8 ? 1
                 : d->Format == CU_AD_FORMAT_SIGNED_INT32 || d->Format == CU_AD_FORMAT_UNSIGNED_INT32 ||
                         d->Format == CU_AD_FORMAT_FLOAT
                     ? 4
                     : 2;
  return bytes * d->NumChannels;
}

bool convert(const cudaResourceDesc& resource, CUDA_RESOURCE_DESC* out) {
  const auto& from = resource.res;
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  out->resType = static_cast<CUresourcetype>(resource.resType);
  switch (resource.resType) {
    case cudaResourceTypeArray:
      out->res.array.hArray = handle(from.array.array);
      return from.array.array;
    case cudaResourceTypeMipmappedArray:
      out->res.mipmap.hMipmappedArray = handle(from.mipmap.mipmap);
      return from.mipmap.mipmap;
    case cudaResourceTypeLinear:
      if (!from.linear.devPtr || !format(from.linear.desc, &d)) return false;
      out->res.linear = {reinterpret_cast<CUdeviceptr>(from.linear.devPtr), d.Format, d.NumChannels,
                         from.linear.sizeInBytes};
      return true;
    case cudaResourceTypePitch2D:
      if (!from.pitch2D.devPtr || !format(from.pitch2D.desc, &d)) return false;
      out->res.pitch2D = {reinterpret_cast<CUdeviceptr>(from.pitch2D.devPtr),
                          d.Format,
                          d.NumChannels,
                          from.pitch2D.width,
                          from.pitch2D.height,
                          from.pitch2D.pitchInBytes};
      return true;
    default:
      return false;
  }
}

cudaError_t rows(cudaArray_t to_array, void* to, size_t to_pitch, cudaArray_const_t from_array, const void* from,
                 size_t from_pitch, size_t x, size_t y, size_t width, size_t height, cudaStream_t stream, bool wait) {
  CALL(ensure());
  CUDA_MEMCPY2D c = {};
  c.srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.srcArray = handle(from_array);
  c.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  c.srcPitch = from_pitch;
  c.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.dstArray = handle(to_array);
  c.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  c.dstPitch = to_pitch;
  (to_array ? c.dstXInBytes : c.srcXInBytes) = x;
  (to_array ? c.dstY : c.srcY) = y;
  c.WidthInBytes = width;
  c.Height = height;
  return done(wait ? cuMemcpy2D(&c) : cuMemcpy2DAsync(&c, stream));
}

// Elements one after the other, from a place of an array on, or to it: a row at a time.
cudaError_t line(cudaArray_t to_array, void* to, cudaArray_const_t from_array, const void* from, size_t x, size_t y,
                 size_t count, cudaStream_t stream, bool wait) {
  CALL(ensure());
  CUDA_ARRAY3D_DESCRIPTOR d;
  const size_t row = element(to_array ? to_array : from_array, &d) * d.Width;
  if (!row || x >= row) return done(cudaErrorInvalidValue);
  for (size_t at = 0; at < count; ++y, x = 0) {
    const size_t bytes = std::min(row - x, count - at);
    CALL(rows(to_array, to ? static_cast<char*>(to) + at : nullptr, bytes, from_array,
              from ? static_cast<const char*>(from) + at : nullptr, bytes, x, y, bytes, 1, stream, wait));
    at += bytes;
  }
  return cudaSuccess;
}

}  // namespace

namespace devtrace::simulate::cudart {

cudaError_t convert(const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* c) {
  *c = {};
  if ((p.srcArray && p.srcPtr.ptr) || (p.dstArray && p.dstPtr.ptr)) return cudaErrorInvalidValue;
  if ((!p.srcArray && !p.srcPtr.ptr) || (!p.dstArray && !p.dstPtr.ptr)) return cudaErrorInvalidValue;
  CUDA_ARRAY3D_DESCRIPTOR d;
  size_t from = p.srcArray ? element(p.srcArray, &d) : 1, to = p.dstArray ? element(p.dstArray, &d) : 1;
  if (!from || !to) return cudaErrorInvalidResourceHandle;
  c->srcXInBytes = p.srcPos.x * from;
  c->srcY = p.srcPos.y;
  c->srcZ = p.srcPos.z;
  c->srcMemoryType = p.srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c->srcArray = handle(p.srcArray);
  c->srcDevice = reinterpret_cast<CUdeviceptr>(p.srcPtr.ptr);
  c->srcPitch = p.srcPtr.pitch;
  c->srcHeight = p.srcPtr.ysize;
  c->dstXInBytes = p.dstPos.x * to;
  c->dstY = p.dstPos.y;
  c->dstZ = p.dstPos.z;
  c->dstMemoryType = p.dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c->dstArray = handle(p.dstArray);
  c->dstDevice = reinterpret_cast<CUdeviceptr>(p.dstPtr.ptr);
  c->dstPitch = p.dstPtr.pitch;
  c->dstHeight = p.dstPtr.ysize;
  // The extent counts elements as soon as an array takes part.
  c->WidthInBytes = p.extent.width * (p.srcArray ? from : p.dstArray ? to : 1);
  c->Height = p.extent.height;
  c->Depth = p.extent.depth;
  return cudaSuccess;
}

}  // namespace devtrace::simulate::cudart

extern "C" {

cudaError_t CUDARTAPI cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  CALL(ensure());
  CUDA_MEMCPY3D c;
  CALL(p ? convert(*p, &c) : cudaErrorInvalidValue);
  return done(cuMemcpy3D(&c));
}
cudaError_t CUDARTAPI cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  CALL(ensure());
  CUDA_MEMCPY3D c;
  CALL(p ? convert(*p, &c) : cudaErrorInvalidValue);
  return done(cuMemcpy3DAsync(&c, stream));
}
static cudaMemcpy3DParms without_devices(const cudaMemcpy3DPeerParms& p) {
  cudaMemcpy3DParms c = {};
  c.srcArray = p.srcArray;
  c.srcPos = p.srcPos;
  c.srcPtr = p.srcPtr;
  c.dstArray = p.dstArray;
  c.dstPos = p.dstPos;
  c.dstPtr = p.dstPtr;
  c.extent = p.extent;
  c.kind = cudaMemcpyDefault;
  return c;
}
cudaError_t CUDARTAPI cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  if (!p) return done(cudaErrorInvalidValue);
  cudaMemcpy3DParms c = without_devices(*p);
  return cudaMemcpy3D(&c);
}
cudaError_t CUDARTAPI cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  if (!p) return done(cudaErrorInvalidValue);
  cudaMemcpy3DParms c = without_devices(*p);
  return cudaMemcpy3DAsync(&c, stream);
}

cudaError_t CUDARTAPI cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* channel, cudaExtent extent,
                                        unsigned int flags) {
  CALL(ensure());
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  if (!array || !channel || !format(*channel, &d)) return done(cudaErrorInvalidValue);
  d.Width = extent.width;
  d.Height = extent.height;
  d.Depth = extent.depth;
  d.Flags = flags;
  return done(cuArray3DCreate(reinterpret_cast<CUarray*>(array), &d));
}
cudaError_t CUDARTAPI cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channel, size_t width,
                                      size_t height, unsigned int flags) {
  return cudaMalloc3DArray(array, channel, {width, height, 0}, flags);
}
cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array) {
  CALL(ensure());
  return array ? done(cuArrayDestroy(handle(array))) : cudaSuccess;
}
cudaError_t CUDARTAPI cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* channel,
                                               cudaExtent extent, unsigned int levels, unsigned int flags) {
  CALL(ensure());
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  if (!array || !channel || !format(*channel, &d)) return done(cudaErrorInvalidValue);
  d.Width = extent.width;
  d.Height = extent.height;
  d.Depth = extent.depth;
  d.Flags = flags;
  return done(cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &d, levels));
}
cudaError_t CUDARTAPI cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_const_t array,
                                                 unsigned int index) {
  FORWARD(cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(level), handle(array), index));
}
cudaError_t CUDARTAPI cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  CALL(ensure());
  return array ? done(cuMipmappedArrayDestroy(handle(array))) : cudaSuccess;
}
cudaError_t CUDARTAPI cudaArrayGetInfo(cudaChannelFormatDesc* channel, cudaExtent* extent, unsigned int* flags,
                                       cudaArray_t array) {
  CALL(ensure());
  CUDA_ARRAY3D_DESCRIPTOR d;
  size_t bytes = element(array, &d);
  if (!bytes) return done(cudaErrorInvalidResourceHandle);
  if (extent) *extent = {d.Width, d.Height, d.Depth};
  if (flags) *flags = d.Flags;
  if (channel) {
    int bits = static_cast<int>(bytes / d.NumChannels * 8);
    channel->x = bits;
    channel->y = d.NumChannels > 1 ? bits : 0;
    channel->z = channel->w = d.NumChannels > 2 ? bits : 0;
    channel->f = d.Format == CU_AD_FORMAT_HALF || d.Format == CU_AD_FORMAT_FLOAT ? cudaChannelFormatKindFloat
                 : d.Format >= CU_AD_FORMAT_SIGNED_INT8                          ? cudaChannelFormatKindSigned
                                                                                 : cudaChannelFormatKindUnsigned;
  }
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetChannelDesc(cudaChannelFormatDesc* channel, cudaArray_const_t array) {
  return cudaArrayGetInfo(channel, nullptr, nullptr, const_cast<cudaArray_t>(array));
}
cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

cudaError_t CUDARTAPI cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t count,
                                        cudaMemcpyKind) {
  return line(to, nullptr, nullptr, from, x, y, count, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t count,
                                             cudaMemcpyKind, cudaStream_t stream) {
  return line(to, nullptr, nullptr, from, x, y, count, stream, false);
}
cudaError_t CUDARTAPI cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                          cudaMemcpyKind) {
  return line(nullptr, to, from, nullptr, x, y, count, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                               cudaMemcpyKind, cudaStream_t stream) {
  return line(nullptr, to, from, nullptr, x, y, count, stream, false);
}
cudaError_t CUDARTAPI cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                                          size_t width, size_t height, cudaMemcpyKind) {
  return rows(to, nullptr, 0, nullptr, from, pitch, x, y, width, height, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                                               size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return rows(to, nullptr, 0, nullptr, from, pitch, x, y, width, height, stream, false);
}
cudaError_t CUDARTAPI cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                            size_t width, size_t height, cudaMemcpyKind) {
  return rows(nullptr, to, pitch, from, nullptr, 0, x, y, width, height, nullptr, true);
}
cudaError_t CUDARTAPI cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                                 size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return rows(nullptr, to, pitch, from, nullptr, 0, x, y, width, height, stream, false);
}

cudaError_t CUDARTAPI cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                              const cudaTextureDesc* texture, const cudaResourceViewDesc*) {
  CALL(ensure());
  if (!object || !resource || !texture) return done(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC r = {};
  CUDA_TEXTURE_DESC t = {};
  if (!convert(*resource, &r)) return done(cudaErrorInvalidValue);
  for (int i = 0; i < 3; ++i) t.addressMode[i] = static_cast<CUaddress_mode>(texture->addressMode[i]);
  t.filterMode = static_cast<CUfilter_mode>(texture->filterMode);
  t.flags = (texture->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
            (texture->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0u) | (texture->sRGB ? CU_TRSF_SRGB : 0u);
  std::copy_n(texture->borderColor, 4, t.borderColor);
  return done(cuTexObjectCreate(object, &r, &t, nullptr));
}
cudaError_t CUDARTAPI cudaDestroyTextureObject(cudaTextureObject_t object) {
  FORWARD(cuTexObjectDestroy(object));
}
cudaError_t CUDARTAPI cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  cudaTextureDesc none = {};
  return cudaCreateTextureObject(object, resource, &none, nullptr);
}
cudaError_t CUDARTAPI cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  FORWARD(cuTexObjectDestroy(object));
}

}  // extern "C"
