#include "simulate/model/pool.h"

#include "simulate/model/device.h"
#include "simulate/model/memory.h"

namespace devtrace::sim {

CUmemoryPool create_pool(int ordinal, bool is_default) {
  auto* pool = new CUmemPoolHandle_st;
  pool->device = ordinal;
  pool->is_default = is_default;
  handles<CUmemPoolHandle_st>().add(pool);
  return pool;
}

CUmemoryPool default_pool(int ordinal) {
  Device& d = device(ordinal);
  if (CUmemoryPool pool = d.default_pool) return pool;
  CUmemoryPool made = create_pool(ordinal, true), none = nullptr;
  if (d.default_pool.compare_exchange_strong(none, made)) return made;
  handles<CUmemPoolHandle_st>().remove(made);  // another thread was first
  delete made;
  return none;
}

CUmemoryPool current_pool(int ordinal) {
  CUmemoryPool pool = device(ordinal).pool;
  return pool ? pool : default_pool(ordinal);
}

CUresult pool_allocate(CUmemoryPool pool, size_t size, CUcontext context, CUdeviceptr* address) {
  if (CUresult e = allocate_device(pool->device, size, context, pool, address)) return e;
  uint64_t used = pool->used.fetch_add(size) + size;
  for (uint64_t high = pool->used_high; used > high && !pool->used_high.compare_exchange_weak(high, used);) {
  }
  return CUDA_SUCCESS;
}

CUresult pool_free(CUdeviceptr address) {
  Allocation a;
  bool known = find_memory(address, &a);
  if (CUresult e = free_device(address)) return e;
  if (known && a.pool && handles<CUmemPoolHandle_st>().has(a.pool)) a.pool->used.fetch_sub(a.size);
  return CUDA_SUCCESS;
}

}  // namespace devtrace::sim
