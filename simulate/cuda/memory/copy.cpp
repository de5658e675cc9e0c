// Copies and fills of the driver API: all of them become one kind of operation.
#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/stream.h"

namespace {

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

bool is_a_devices(CUdeviceptr address) {
  simulate::Allocation a;
  return simulate::find_memory(address, &a) && a.device >= 0 && a.kind != simulate::AllocationKind::managed;
}

// No call waits for a copy within or between devices.
bool is_on_devices(const CUDA_MEMCPY3D& c) {
  const auto device = [](CUmemorytype type, CUdeviceptr address) {
    return type == CU_MEMORYTYPE_ARRAY || (type != CU_MEMORYTYPE_HOST && is_a_devices(address));
  };
  return device(c.srcMemoryType, c.srcDevice) && device(c.dstMemoryType, c.dstDevice);
}

CUresult enqueue_copy(const CUDA_MEMCPY3D& copy, CUstream handle, bool wait) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_copy(copy));
  if (wait) TRY(simulate::check_unsafe());
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  simulate::Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  operation.copy = copy;
  operation.waited = wait;
  TRY(simulate::submit(stream, std::move(operation)));
  if (!wait || (simulate::is_async() && is_on_devices(copy))) return CUDA_SUCCESS;
  simulate::synchronize(stream);
  return static_cast<CUresult>(context->sticky.load());  // of the work that it waited for
}

CUresult plain(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, bool wait) {
  return enqueue_copy(simulate::plain_copy(to, from, size), stream, wait);
}

// What all of the driver's descriptions of a copy have.
template <class Copy>
CUDA_MEMCPY3D common(const Copy& c) {
  CUDA_MEMCPY3D w = {};
  w.srcXInBytes = c.srcXInBytes;
  w.srcY = c.srcY;
  w.srcMemoryType = c.srcMemoryType;
  w.srcHost = c.srcHost;
  w.srcDevice = c.srcDevice;
  w.srcArray = c.srcArray;
  w.srcPitch = c.srcPitch;
  w.dstXInBytes = c.dstXInBytes;
  w.dstY = c.dstY;
  w.dstMemoryType = c.dstMemoryType;
  w.dstHost = c.dstHost;
  w.dstDevice = c.dstDevice;
  w.dstArray = c.dstArray;
  w.dstPitch = c.dstPitch;
  w.WidthInBytes = c.WidthInBytes;
  w.Height = c.Height;
  return w;
}

CUDA_MEMCPY3D widen(const CUDA_MEMCPY2D& c) {
  CUDA_MEMCPY3D w = common(c);
  if (!w.srcPitch) w.srcPitch = c.WidthInBytes;
  if (!w.dstPitch) w.dstPitch = c.WidthInBytes;
  w.Depth = 1;
  return w;
}

CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& c) {
  CUDA_MEMCPY3D w = common(c);
  w.srcZ = c.srcZ;
  w.srcHeight = c.srcHeight;
  w.dstZ = c.dstZ;
  w.dstHeight = c.dstHeight;
  w.Depth = c.Depth;
  return w;
}

// One side in an array, the other at an address; offsets in bytes along the first row.
CUDA_MEMCPY3D array_copy(CUarray to_array, size_t to_offset, CUdeviceptr to, CUarray from_array, size_t from_offset,
                         CUdeviceptr from, size_t size) {
  CUDA_MEMCPY3D c = simulate::plain_copy(to, from, size);
  if (to_array) {
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = to_array;
    c.dstXInBytes = to_offset;
  }
  if (from_array) {
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = from_array;
    c.srcXInBytes = from_offset;
  }
  return c;
}

CUresult fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
              CUstream handle, bool wait) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  simulate::Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_MEMSET;
  operation.waited = wait;
  operation.set = {to, pitch, value, element, width, height};
  TRY(simulate::check_set(operation.set));
  if (wait) TRY(simulate::check_unsafe());
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  TRY(simulate::submit(stream, std::move(operation)));
  if (wait && !(simulate::is_async() && is_a_devices(to))) simulate::synchronize(stream);
  return CUDA_SUCCESS;
}

bool context_ok(CUcontext context) {
  return simulate::handles<CUctx_st>().has(context);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return plain(to, from, size, nullptr, true);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s) {
  return plain(to, from, size, s, false);
}
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return plain(to, address(from), size, nullptr, true);
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream s) {
  return plain(to, address(from), size, s, false);
}
CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return plain(address(to), from, size, nullptr, true);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream s) {
  return plain(address(to), from, size, s, false);
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return plain(to, from, size, nullptr, true);
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s) {
  return plain(to, from, size, s, false);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                              size_t size) {
  if (!context_ok(to_context) || !context_ok(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return plain(to, from, size, nullptr, true);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                   size_t size, CUstream s) {
  if (!context_ok(to_context) || !context_ok(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return plain(to, from, size, s, false);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* c) {
  return c ? enqueue_copy(widen(*c), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* c) {
  return cuMemcpy2D(c);
}
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream s) {
  return c ? enqueue_copy(widen(*c), s, false) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* c) {
  return c ? enqueue_copy(*c, nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* c, CUstream s) {
  return c ? enqueue_copy(*c, s, false) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* c) {
  return c ? enqueue_copy(without_contexts(*c), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* c, CUstream s) {
  return c ? enqueue_copy(without_contexts(*c), s, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                                    CUmemcpyAttributes*, size_t*, size_t, CUstream s) {
  if (!to || !from || !sizes || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) TRY(plain(to[i], from[i], sizes[i], s, false));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoA(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return enqueue_copy(array_copy(to, offset, 0, nullptr, 0, from, size), nullptr, true);
}
CUresult CUDAAPI cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return enqueue_copy(array_copy(nullptr, 0, to, from, offset, 0, size), nullptr, true);
}
CUresult CUDAAPI cuMemcpyHtoA(CUarray to, size_t offset, const void* from, size_t size) {
  return enqueue_copy(array_copy(to, offset, 0, nullptr, 0, address(from), size), nullptr, true);
}
CUresult CUDAAPI cuMemcpyAtoH(void* to, CUarray from, size_t offset, size_t size) {
  return enqueue_copy(array_copy(nullptr, 0, address(to), from, offset, 0, size), nullptr, true);
}
CUresult CUDAAPI cuMemcpyAtoA(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size) {
  return enqueue_copy(array_copy(to, to_offset, 0, from, from_offset, 0, size), nullptr, true);
}
CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray to, size_t offset, const void* from, size_t size, CUstream s) {
  return enqueue_copy(array_copy(to, offset, 0, nullptr, 0, address(from), size), s, false);
}
CUresult CUDAAPI cuMemcpyAtoHAsync(void* to, CUarray from, size_t offset, size_t size, CUstream s) {
  return enqueue_copy(array_copy(nullptr, 0, address(to), from, offset, 0, size), s, false);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n) {
  return fill(to, 0, v, 1, n, 1, nullptr, true);
}
CUresult CUDAAPI cuMemsetD16(CUdeviceptr to, unsigned short v, size_t n) {
  return fill(to, 0, v, 2, n, 1, nullptr, true);
}
CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned int v, size_t n) {
  return fill(to, 0, v, 4, n, 1, nullptr, true);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
  return fill(to, 0, v, 1, n, 1, s, false);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s) {
  return fill(to, 0, v, 2, n, 1, s, false);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream s) {
  return fill(to, 0, v, 4, n, 1, s, false);
}
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h) {
  return fill(to, pitch, v, 1, w, h, nullptr, true);
}
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h) {
  return fill(to, pitch, v, 2, w, h, nullptr, true);
}
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h) {
  return fill(to, pitch, v, 4, w, h, nullptr, true);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s) {
  return fill(to, pitch, v, 1, w, h, s, false);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s) {
  return fill(to, pitch, v, 2, w, h, s, false);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h, CUstream s) {
  return fill(to, pitch, v, 4, w, h, s, false);
}

}  // extern "C"
