// CUDA driver: memory. Programs that link the runtime statically come here, as does PyTorch
// for expandable segments, and the runtime itself, whose own hooks have then told already.

#include <cuda.h>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "interpose/linking/lazy_symbol.h"
#include "tracker/events.h"

using devtrace::Device;
using devtrace::interpose::Call;
using devtrace::interpose::emit_opened;
using devtrace::interpose::owner;
using devtrace::interpose::pointer;
using Memory = devtrace::MemoryKind;
namespace events = devtrace::events;

namespace {

constinit devtrace::interpose::LazySymbol<decltype(&::cuMemGetAllocationPropertiesFromHandle)> allocation_properties(
    "libcuda.so", "cuMemGetAllocationPropertiesFromHandle");

CUresult on_allocated(const Call& call, CUresult result, CUdeviceptr* address, size_t bytes,
                      Memory memory = Memory::device) {
  if (result == CUDA_SUCCESS && address && call.outermost())
    events::allocated(pointer(*address), bytes, memory == Memory::device ? owner(*address) : Device::cpu(), memory);
  return result;
}

CUresult on_pinned(const Call& call, CUresult result, void* address, size_t bytes) {
  if (result == CUDA_SUCCESS && address && call.outermost())
    events::allocated(address, bytes, Device::cpu(), Memory::pinned);
  return result;
}

}  // namespace

DRIVER_HOOK(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes)) {
  const Call call;
  return on_allocated(call, CALL_DRIVER(cuMemAlloc_v2, (address, bytes)), address, bytes);
}

DRIVER_HOOK(cuMemAllocPitch_v2,
            (CUdeviceptr * address, size_t* pitch, size_t width, size_t height, unsigned element_bytes)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemAllocPitch_v2, (address, pitch, width, height, element_bytes));
  return on_allocated(call, result, address, pitch ? *pitch * height : width * height);
}

DRIVER_HOOK(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned flags)) {
  const Call call;
  return on_allocated(call, CALL_DRIVER(cuMemAllocManaged, (address, bytes, flags)), address, bytes, Memory::managed);
}

#define DRIVER_ALLOCATE_ASYNC(symbol)                                                         \
  DRIVER_HOOK(symbol, (CUdeviceptr * address, size_t bytes, CUstream stream)) {               \
    const Call call;                                                                          \
    return on_allocated(call, CALL_DRIVER(symbol, (address, bytes, stream)), address, bytes); \
  }
DRIVER_ALLOCATE_ASYNC(cuMemAllocAsync)
DRIVER_ALLOCATE_ASYNC(cuMemAllocAsync_ptsz)

#define DRIVER_ALLOCATE_FROM_POOL(symbol)                                                           \
  DRIVER_HOOK(symbol, (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream)) {  \
    const Call call;                                                                                \
    return on_allocated(call, CALL_DRIVER(symbol, (address, bytes, pool, stream)), address, bytes); \
  }
DRIVER_ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync)
DRIVER_ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync_ptsz)

// Memory that another process allocated. What its handle opens: peer.cpp.
DRIVER_HOOK(cuMemPoolImportPointer, (CUdeviceptr * address, CUmemoryPool pool, CUmemPoolPtrExportData* exported)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemPoolImportPointer, (address, pool, exported));
  if (result == CUDA_SUCCESS && call.outermost()) emit_opened(*address);
  return result;
}

// Another API's memory (Vulkan, Direct3D): given back like memory of one's own.
DRIVER_HOOK(cuExternalMemoryGetMappedBuffer,
            (CUdeviceptr * address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuExternalMemoryGetMappedBuffer, (address, memory, buffer));
  return on_allocated(call, result, address, result == CUDA_SUCCESS ? buffer->size : 0);
}

// Before the original: afterwards another thread may already have been given the same address.
#define DRIVER_FREE(symbol)                               \
  DRIVER_HOOK(symbol, (CUdeviceptr address)) {            \
    const Call call;                                      \
    if (call.entering()) events::freed(pointer(address)); \
    return CALL_DRIVER(symbol, (address));                \
  }
DRIVER_FREE(cuMemFree_v2)
DRIVER_FREE(cuIpcCloseMemHandle)

#define DRIVER_FREE_ASYNC(symbol)                               \
  DRIVER_HOOK(symbol, (CUdeviceptr address, CUstream stream)) { \
    const Call call;                                            \
    if (call.entering()) events::freed(pointer(address));       \
    return CALL_DRIVER(symbol, (address, stream));              \
  }
DRIVER_FREE_ASYNC(cuMemFreeAsync)
DRIVER_FREE_ASYNC(cuMemFreeAsync_ptsz)

// Pinned host memory.
DRIVER_HOOK(cuMemAllocHost_v2, (void** address, size_t bytes)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemAllocHost_v2, (address, bytes));
  return on_pinned(call, result, address ? *address : nullptr, bytes);
}
DRIVER_HOOK(cuMemHostAlloc, (void** address, size_t bytes, unsigned flags)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemHostAlloc, (address, bytes, flags));
  return on_pinned(call, result, address ? *address : nullptr, bytes);
}
// The functions of before CUDA 4, which differ in a type or a default.
DRIVER_HOOK(cuMemAllocHost, (void** address, unsigned bytes)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemAllocHost, (address, bytes));
  return on_pinned(call, result, address ? *address : nullptr, bytes);
}
DRIVER_HOOK(cuMemHostRegister, (void* address, size_t bytes, unsigned flags)) {
  const Call call;
  return on_pinned(call, CALL_DRIVER(cuMemHostRegister, (address, bytes, flags)), address, bytes);
}
DRIVER_HOOK(cuMemHostRegister_v2, (void* address, size_t bytes, unsigned flags)) {
  const Call call;
  return on_pinned(call, CALL_DRIVER(cuMemHostRegister_v2, (address, bytes, flags)), address, bytes);
}
#define DRIVER_FREE_PINNED(symbol)               \
  DRIVER_HOOK(symbol, (void* address)) {         \
    const Call call;                             \
    if (call.entering()) events::freed(address); \
    return CALL_DRIVER(symbol, (address));       \
  }
DRIVER_FREE_PINNED(cuMemFreeHost)
DRIVER_FREE_PINNED(cuMemHostUnregister)

// Virtual memory: the owner is where the physical memory lies. A multicast object's handle has no such place: what is
// mapped of it is every member's, and nothing is told of it.
DRIVER_HOOK(cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemMap, (address, bytes, offset, handle, flags));
  if (result != CUDA_SUCCESS || !call.enabled()) return result;
  const auto ask = allocation_properties.get();
  CUmemAllocationProp properties{};
  if (ask && ask(&properties, handle) == CUDA_SUCCESS) {
    // The id only counts when the type says so.
    if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      events::allocated(pointer(address), bytes, Device::cuda(properties.location.id));
    else
      events::allocated(pointer(address), bytes, Device::cpu(), Memory::pinned);
  }
  return result;
}
DRIVER_HOOK(cuMemUnmap, (CUdeviceptr address, size_t bytes)) {
  const Call call;
  if (call.entering()) events::unmapped(pointer(address), bytes);
  return CALL_DRIVER(cuMemUnmap, (address, bytes));
}
