// Allocation and pointer queries of the driver API. Virtual memory management is in vmm.cpp, pools in pool.cpp.
#include "simulate/model/memory/memory.h"

#include <sys/mman.h>

#include <cstring>

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/pool.h"
#include "simulate/model/stream.h"

namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

bool host_kind(simulate::AllocationKind kind) {
  return kind == simulate::AllocationKind::pinned || kind == simulate::AllocationKind::registered;
}

CUmemorytype memory_type(const simulate::Allocation& a) {
  return host_kind(a.kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUresult pointer_attribute(void* data, CUpointer_attribute attribute, const simulate::Allocation& a,
                           CUdeviceptr pointer) {
  auto give = [&](auto value) {
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  bool bare = a.base == 0;  // memory the driver does not know
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (bare || !a.context) return CUDA_ERROR_INVALID_VALUE;
      return give(a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(static_cast<unsigned>(memory_type(a)));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (bare || (a.kind != simulate::AllocationKind::managed && !host_kind(a.kind))) return CUDA_ERROR_INVALID_VALUE;
      return give(pointer);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(0u);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(static_cast<unsigned>(a.kind == simulate::AllocationKind::managed && !bare));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      if (bare) return give(-2);  // CU_DEVICE_INVALID
      return give(host_kind(a.kind) && a.context ? a.context->device : a.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(static_cast<unsigned>(!bare && a.kind == simulate::AllocationKind::device && !a.pool));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(static_cast<unsigned>(!bare));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(0ull);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return give(0u);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(bare ? nullptr : a.pool);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      if (bare) return CUDA_ERROR_INVALID_VALUE;
      return give(a.id);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  REQUIRE_CONTEXT(context);
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  simulate::Arena& arena = simulate::arena(simulate::device(context->device).physical);
  *total = simulate::settings().memory;
  *free = arena.capacity() - arena.used();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* pointer, size_t size) {
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_unsafe());
  return simulate::allocate_device(context->device, size, context, nullptr, pointer);
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height,
                                 unsigned int element) {
  if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
  *pitch = round_up(width, 512);
  if (*pitch < width || height > SIZE_MAX / *pitch) return CUDA_ERROR_OUT_OF_MEMORY;
  return cuMemAlloc(pointer, *pitch * height);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  if (!pointer) return CUDA_SUCCESS;
  TRY(simulate::check_unsafe());
  simulate::Allocation a;
  if (!simulate::find_memory(pointer, &a) || a.base != pointer) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::pool_may_free(a) && a.kind != simulate::AllocationKind::managed) return CUDA_ERROR_INVALID_VALUE;
  simulate::synchronize_context(context);  // cuMemFree waits for the work that may still use the memory
  simulate::finish_work();                 // a peer's, too
  if (a.kind != simulate::AllocationKind::managed) return simulate::pool_free(pointer);
  if (!simulate::forget(pointer, &a)) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(a.base), round_up(a.size, kPage));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* pointer, size_t size, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_unsafe());
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return simulate::allocate_host(reinterpret_cast<void**>(pointer), size, simulate::AllocationKind::managed, flags,
                                 context->device, context);
}

CUresult CUDAAPI cuMemHostAlloc(void** pointer, size_t size, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_unsafe());
  if (flags & ~7u) return CUDA_ERROR_INVALID_VALUE;
  return simulate::allocate_host(pointer, size, simulate::AllocationKind::pinned, flags, -1, context);
}

CUresult CUDAAPI cuMemAllocHost(void** pointer, size_t size) {
  return cuMemHostAlloc(pointer, size, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  auto base = reinterpret_cast<uintptr_t>(pointer);
  if (!simulate::find_memory(base, &a) || a.base != base || a.kind != simulate::AllocationKind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  simulate::synchronize_context(context);
  simulate::finish_work();
  if (!simulate::forget(base, &a)) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer, round_up(a.size, kPage));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister(void* pointer, size_t size, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  if (!pointer || !size || (flags & ~15u)) return CUDA_ERROR_INVALID_VALUE;
  simulate::Allocation a;
  auto base = reinterpret_cast<uintptr_t>(pointer);
  if (simulate::find_memory(base, &a) || simulate::find_memory(base + size - 1, &a))
    return host_kind(a.kind) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  a = {};
  a.base = base;
  a.size = size;
  a.kind = simulate::AllocationKind::registered;
  a.flags = flags;
  a.context = context;
  simulate::remember(a);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostUnregister(void* pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  auto base = reinterpret_cast<uintptr_t>(pointer);
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::find_memory(base, &a) || a.base != base || a.kind != simulate::AllocationKind::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  simulate::synchronize_context(context);
  simulate::finish_work();
  return simulate::forget(base, &a) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* device, void* pointer, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (!device || flags || !simulate::find_memory(address, &a) ||
      !(host_kind(a.kind) || a.kind == simulate::AllocationKind::managed))
    return CUDA_ERROR_INVALID_VALUE;
  *device = address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  if (!flags || !simulate::find_memory(reinterpret_cast<uintptr_t>(pointer), &a) || !host_kind(a.kind))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = a.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  if (!simulate::find_memory(pointer, &a)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a.base;
  if (size) *size = a.size;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  if (!data || !pointer) return CUDA_ERROR_INVALID_VALUE;
  simulate::Allocation a;
  if (!simulate::find_memory(pointer, &a)) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(data, attribute, a, pointer);
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                        CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  simulate::Allocation a;
  simulate::find_memory(pointer, &a);
  // Unlike the single query this one answers for any pointer: what does not apply is zero.
  for (unsigned i = 0; i < count; ++i)
    if (pointer_attribute(data[i], attributes[i], a, pointer)) std::memset(data[i], 0, 4);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  bool known = value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && simulate::find_memory(pointer, &a);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr pointer, size_t size, CUmem_advise advice, CUmemLocation location) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  if (!size || !simulate::find_memory(pointer, &a) || a.kind != simulate::AllocationKind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      !simulate::valid_device(location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr pointer, size_t size, CUmemLocation location, unsigned int,
                                    CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  simulate::Allocation a;
  if (!size || !simulate::find_memory(pointer, &a) || a.kind != simulate::AllocationKind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !simulate::valid_device(location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t, unsigned int) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  simulate::Allocation a;
  return simulate::find_memory(pointer, &a) && a.kind == simulate::AllocationKind::managed ? CUDA_SUCCESS
                                                                                           : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
