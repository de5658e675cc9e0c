#include "simulate/model/memory/pool.h"

#include <map>
#include <mutex>

#include "simulate/model/device.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/shared.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {
namespace {

void add(std::atomic<uint64_t>& bytes, std::atomic<uint64_t>& most, uint64_t size) {
  const uint64_t now = bytes.fetch_add(size) + size;
  for (uint64_t high = most; now > high && !most.compare_exchange_weak(high, now);) {
  }
}

// Graphs' memory by address: how a free outside of the graph finds it.
std::mutex g_graphs_mutex;
std::map<CUdeviceptr, GraphMemory*> g_graphs;
std::atomic<size_t> g_graphs_count{0};  // zero is the fast path of every free

}  // namespace

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
  add(pool->used, pool->used_high, size);
  return CUDA_SUCCESS;
}

bool pool_may_free(const Allocation& a) {
  return a.kind == AllocationKind::device || (a.kind == AllocationKind::imported && a.pool);
}

CUresult pool_free(CUdeviceptr address) {
  if (g_graphs_count.load(std::memory_order_acquire)) {
    std::lock_guard lock(g_graphs_mutex);
    const auto it = g_graphs.find(address);
    if (it != g_graphs.end()) return it->second->end() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  Allocation a;
  bool known = find_memory(address, &a);
  if (known && a.kind == AllocationKind::imported) return close_imported(address);
  if (CUresult e = free_device(address)) return e;
  if (known && a.pool && handles<CUmemPoolHandle_st>().has(a.pool)) a.pool->used.fetch_sub(a.size);
  return CUDA_SUCCESS;
}

CUresult GraphMemory::allocate(CUmemoryPool pool, size_t size, CUcontext context,
                               std::shared_ptr<GraphMemory>* memory) {
  std::shared_ptr<GraphMemory> made(new GraphMemory);
  if (CUresult e = allocate_device(pool->device, size, context, pool, &made->address_)) return e;
  made->size_ = size;
  made->pool_ = pool;
  GraphMemoryUse& use = graph_memory_use(pool->device);
  add(use.reserved, use.reserved_high, size);
  {
    std::lock_guard lock(g_graphs_mutex);
    g_graphs[made->address_] = made.get();
    g_graphs_count = g_graphs.size();
  }
  *memory = std::move(made);
  return CUDA_SUCCESS;
}

GraphMemory::~GraphMemory() {
  if (!address_) return;  // it was never allocated
  {
    std::lock_guard lock(g_graphs_mutex);
    g_graphs.erase(address_);
    g_graphs_count = g_graphs.size();
  }
  graph_memory_use(pool_->device).reserved.fetch_sub(size_);
  if (end())
    add(pool_->used, pool_->used_high, size_);
  else
    free_device(address_);
}

void GraphMemory::begin() {
  GraphMemoryUse& use = graph_memory_use(pool_->device);
  if (!in_use_.exchange(true)) add(use.used, use.used_high, size_);
}

bool GraphMemory::end() {
  if (!in_use_.exchange(false)) return false;
  graph_memory_use(pool_->device).used.fetch_sub(size_);
  return true;
}

GraphMemoryUse& graph_memory_use(int ordinal) {
  static GraphMemoryUse uses[kMaxDevices];
  return uses[ordinal];
}

}  // namespace devtrace::simulate
