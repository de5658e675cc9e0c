// Stream-ordered allocation of the driver API.
#include "simulate/model/memory/pool.h"

#include <algorithm>
#include <cstring>

#include "simulate/cuda/api.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/stream.h"

namespace {

bool alive(CUmemoryPool pool) {
  return simulate::handles<CUmemPoolHandle_st>().has(pool);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t size, CUmemoryPool pool, CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  if (!pointer || !size) return CUDA_ERROR_INVALID_VALUE;
  if (!alive(pool)) return CUDA_ERROR_INVALID_HANDLE;
  if (pool->imported) return CUDA_ERROR_INVALID_VALUE;
  // The address is known at once on hardware too; in a capture the memory is the graph's.
  if (!simulate::capturing(stream)) return simulate::pool_allocate(pool, size, context, pointer);
  simulate::Operation operation;
  TRY(simulate::GraphMemory::allocate(pool, size, context, &operation.memory));
  *pointer = operation.memory->address();
  operation.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  operation.alloc.poolProps = pool->properties;
  operation.alloc.bytesize = size;
  operation.alloc.dptr = *pointer;
  return simulate::submit(stream, std::move(operation));
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* pointer, size_t size, CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  return cuMemAllocFromPoolAsync(pointer, size, simulate::current_pool(stream->context->device), handle);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  simulate::Allocation a;
  if (!simulate::find_memory(pointer, &a) || a.base != pointer || !simulate::pool_may_free(a))
    return CUDA_ERROR_INVALID_VALUE;
  simulate::Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  operation.free = pointer;
  return simulate::submit(stream, std::move(operation));
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  TRY(ready());
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = simulate::default_pool(device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  TRY(ready());
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = simulate::current_pool(device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!alive(pool)) return CUDA_ERROR_INVALID_HANDLE;
  if (pool->device != device || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  simulate::device(device).pool = pool;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  TRY(ready());
  if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!simulate::valid_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = simulate::create_pool(properties->location.id, false);
  (*pool)->properties = *properties;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  TRY(ready());
  if (!alive(pool) || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  simulate::Device& d = simulate::device(pool->device);
  if (d.pool == pool) d.pool = nullptr;
  simulate::handles<CUmemPoolHandle_st>().remove(pool);  // the object stays: its allocations name it
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  return alive(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  TRY(ready());
  if (!alive(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  auto give = [&](auto v) {
    std::memcpy(value, &v, sizeof v);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return give(pool->reuse[attribute - 1]);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return give(pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return give(pool->used.load());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return give(pool->used_high.load());
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  TRY(ready());
  if (!alive(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&pool->release_threshold, value, 8);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:  // may only be reset
      if (*static_cast<uint64_t*>(value)) return CUDA_ERROR_INVALID_VALUE;
      pool->used_high = pool->used.load();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptors, size_t count) {
  TRY(ready());
  if (!alive(pool) || (count && !descriptors)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    int other = descriptors[i].location.id;
    if (descriptors[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
    if (!simulate::valid_device(other)) return CUDA_ERROR_INVALID_DEVICE;
    if (other == pool->device) continue;
    if (!simulate::can_access_peer(other, pool->device)) return CUDA_ERROR_INVALID_DEVICE;
    if (descriptors[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      pool->access &= ~(1u << other);
    else
      pool->access |= 1u << other;
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  TRY(ready());
  if (!flags || !location || !alive(pool)) return CUDA_ERROR_INVALID_VALUE;
  bool usable =
      location->id == pool->device || (simulate::valid_device(location->id) && (pool->access >> location->id & 1));
  *flags = usable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // extern "C"
