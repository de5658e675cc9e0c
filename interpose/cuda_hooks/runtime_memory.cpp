// CUDA runtime: allocations. The events are told after the original has succeeded.

#include <cuda_runtime_api.h>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "tracker/events.h"

using devtrace::Device;
using devtrace::interpose::Call;
using devtrace::interpose::emit_opened;
using devtrace::interpose::owner;
using Memory = devtrace::MemoryKind;
namespace events = devtrace::events;

namespace {

cudaError_t on_allocated(const Call& call, cudaError_t result, void** pointer, size_t bytes,
                         Memory memory = Memory::device) {
  if (call.enabled() && result == cudaSuccess && pointer)
    events::allocated(*pointer, bytes,
                      memory == Memory::device ? owner(reinterpret_cast<uintptr_t>(*pointer)) : Device::cpu(), memory);
  return result;
}

}  // namespace

RUNTIME_HOOK(cudaMalloc, (void** pointer, size_t bytes)) {
  const Call call;
  return on_allocated(call, CALL_RUNTIME(cudaMalloc, (pointer, bytes)), pointer, bytes);
}

RUNTIME_HOOK(cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t height)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaMallocPitch, (pointer, pitch, width, height));
  return on_allocated(call, result, pointer, pitch ? *pitch * height : width * height);
}

RUNTIME_HOOK(cudaMalloc3D, (cudaPitchedPtr * pitched, cudaExtent extent)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaMalloc3D, (pitched, extent));
  return pitched ? on_allocated(call, result, &pitched->ptr, pitched->pitch * extent.height * extent.depth) : result;
}

RUNTIME_HOOK(cudaMallocManaged, (void** pointer, size_t bytes, unsigned flags)) {
  const Call call;
  return on_allocated(call, CALL_RUNTIME(cudaMallocManaged, (pointer, bytes, flags)), pointer, bytes, Memory::managed);
}

RUNTIME_HOOK(cudaMallocHost, (void** pointer, size_t bytes)) {
  const Call call;
  return on_allocated(call, CALL_RUNTIME(cudaMallocHost, (pointer, bytes)), pointer, bytes, Memory::pinned);
}

RUNTIME_HOOK(cudaHostAlloc, (void** pointer, size_t bytes, unsigned flags)) {
  const Call call;
  return on_allocated(call, CALL_RUNTIME(cudaHostAlloc, (pointer, bytes, flags)), pointer, bytes, Memory::pinned);
}

RUNTIME_HOOK(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags)) {
  const Call call;
  return on_allocated(call, CALL_RUNTIME(cudaHostRegister, (pointer, bytes, flags)), &pointer, bytes, Memory::pinned);
}

#define ALLOCATE_ASYNC(symbol)                                                                 \
  RUNTIME_HOOK(symbol, (void** pointer, size_t bytes, cudaStream_t stream)) {                  \
    const Call call;                                                                           \
    return on_allocated(call, CALL_RUNTIME(symbol, (pointer, bytes, stream)), pointer, bytes); \
  }
#define ALLOCATE_FROM_POOL(symbol)                                                                   \
  RUNTIME_HOOK(symbol, (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)) {    \
    const Call call;                                                                                 \
    return on_allocated(call, CALL_RUNTIME(symbol, (pointer, bytes, pool, stream)), pointer, bytes); \
  }
ALLOCATE_ASYNC(cudaMallocAsync)
ALLOCATE_ASYNC(cudaMallocAsync_ptsz)
ALLOCATE_FROM_POOL(cudaMallocFromPoolAsync)
ALLOCATE_FROM_POOL(cudaMallocFromPoolAsync_ptsz)

// Memory that another process allocated. What its handle opens: peer.cpp.
RUNTIME_HOOK(cudaMemPoolImportPointer, (void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* exported)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaMemPoolImportPointer, (pointer, pool, exported));
  if (call.enabled() && result == cudaSuccess) emit_opened(reinterpret_cast<uintptr_t>(*pointer));
  return result;
}

// Another API's memory (Vulkan, Direct3D): given back like memory of one's own.
RUNTIME_HOOK(cudaExternalMemoryGetMappedBuffer,
             (void** pointer, cudaExternalMemory_t memory, const cudaExternalMemoryBufferDesc* buffer)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaExternalMemoryGetMappedBuffer, (pointer, memory, buffer));
  return on_allocated(call, result, pointer, result == cudaSuccess ? buffer->size : 0);
}

// Before the original: afterwards another thread may already have been given the same address.
#define FREE(symbol)                             \
  RUNTIME_HOOK(symbol, (void* pointer)) {        \
    const Call call;                             \
    if (call.entering()) events::freed(pointer); \
    return CALL_RUNTIME(symbol, (pointer));      \
  }
#define FREE_ASYNC(symbol)                                     \
  RUNTIME_HOOK(symbol, (void* pointer, cudaStream_t stream)) { \
    const Call call;                                           \
    if (call.entering()) events::freed(pointer);               \
    return CALL_RUNTIME(symbol, (pointer, stream));            \
  }
FREE(cudaFree)
FREE(cudaFreeHost)
FREE(cudaHostUnregister)
FREE(cudaIpcCloseMemHandle)
FREE_ASYNC(cudaFreeAsync)
FREE_ASYNC(cudaFreeAsync_ptsz)
