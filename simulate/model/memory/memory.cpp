#include "simulate/model/memory/memory.h"

#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/device.h"
#include "simulate/model/memory/arena.h"
#include "simulate/settings/settings.h"
#include "simulate/values/uncomputed.h"

namespace devtrace::simulate {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<uintptr_t, Allocation> memory;
  std::map<uintptr_t, Allocation> reservations;
  std::atomic<unsigned long long> next_id{1};
};

std::atomic<bool> any_variables{false};

Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

const Allocation* holder(const std::map<uintptr_t, Allocation>& in, uintptr_t address) {
  auto it = in.upper_bound(address);
  if (it == in.begin()) return nullptr;
  --it;
  return address - it->second.base < it->second.size ? &it->second : nullptr;
}

bool allocation_at(std::map<uintptr_t, Allocation> Registry::*in, uintptr_t address, Allocation* found) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  const Allocation* a = holder(r.*in, address);
  if (a) *found = *a;
  return a != nullptr;
}

template <typename F>
void edit(uintptr_t base, F f) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  if (auto it = r.memory.find(base); it != r.memory.end()) f(it->second);
}

}  // namespace

void remember(Allocation allocation) {
  Registry& r = registry();
  allocation.id = r.next_id.fetch_add(1);
  const size_t bytes = allocation.kind == AllocationKind::reserved ? 0 : allocation.size;
  values::uncomputed().clear(allocation.base, bytes);
  // Memory that the host can write without a call is not followed.
  if (settings().kernel_checks && allocation.kind == AllocationKind::device && !(allocation.flags & kOfModule))
    values::uncomputed().mark(allocation.base, bytes, values::kNeverWritten);
  std::unique_lock lock(r.mutex);
  (allocation.kind == AllocationKind::reserved ? r.reservations : r.memory)[allocation.base] = allocation;
}

bool forget(uintptr_t base, Allocation* was) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.memory.find(base);
  if (it == r.memory.end()) return false;
  if (was) *was = it->second;
  r.memory.erase(it);
  return true;
}

bool find_memory(uintptr_t address, Allocation* found) {
  return allocation_at(&Registry::memory, address, found);
}

bool find_reservation(uintptr_t address, Allocation* found) {
  return allocation_at(&Registry::reservations, address, found);
}

bool forget_reservation(uintptr_t base, size_t size) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.reservations.find(base);
  if (it == r.reservations.end() || it->second.size != size) return false;
  r.reservations.erase(it);
  return true;
}

bool set_access(uintptr_t base, size_t size, int device, bool allowed) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  for (uintptr_t at = base; at < base + size;) {
    const Allocation* a = holder(r.memory, at);
    if (!a || a->kind != AllocationKind::mapped) return false;
    at = a->base + a->size;
  }
  for (auto it = r.memory.lower_bound(base); it != r.memory.end() && it->first < base + size; ++it) {
    if (allowed)
      it->second.access |= 1u << device;
    else
      it->second.access &= ~(1u << device);
  }
  return true;
}

void set_flags(uintptr_t base, unsigned flags) {
  edit(base, [&](Allocation& a) { a.flags = flags; });
  if (flags & kOfModule) any_variables.store(true, std::memory_order_relaxed);
}

void written_to(uintptr_t address, bool by_host) {
  const unsigned added = by_host ? kSet | kSetByHost : kSet;
  Allocation a;
  if (any_variables.load(std::memory_order_relaxed) && find_memory(address, &a) && a.flags & kOfModule &&
      (a.flags & added) != added)
    edit(a.base, [&](Allocation& it) { it.flags |= added; });
}

CUresult allocate_device(int ordinal, size_t size, CUcontext context, CUmemoryPool pool, CUdeviceptr* address) {
  if (!address || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Arena& own = arena(device(ordinal).physical);
  uintptr_t at = own.allocate(size);
  if (!at && is_async()) {
    asynchronous::wait_for_all();  // streams may have memory to free
    at = own.allocate(size);
  }
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation a;
  a.base = at;
  a.size = size;
  a.device = ordinal;
  a.context = context;
  a.pool = pool;
  remember(a);
  *address = at;
  return CUDA_SUCCESS;
}

CUresult free_device(CUdeviceptr address) {
  Allocation a;
  if (!find_memory(address, &a) || a.base != address || a.kind != AllocationKind::device)
    return CUDA_ERROR_INVALID_VALUE;
  if (!forget(address, &a)) return CUDA_ERROR_INVALID_VALUE;  // another thread freed it first
  arena(device(a.device).physical).release(a.base, a.size);
  return CUDA_SUCCESS;
}

CUresult allocate_host(void** out, size_t size, AllocationKind kind, unsigned flags, int device, CUcontext context) {
  if (!out || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!host_gives(size, host_use)) return CUDA_ERROR_OUT_OF_MEMORY;
  // A mapping of its own, so that an address says where it belongs.
  void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation a;
  a.base = reinterpret_cast<uintptr_t>(at);
  a.size = size;
  a.kind = kind;
  a.flags = flags;
  a.device = device;
  a.context = context;
  remember(a);
  *out = at;
  return CUDA_SUCCESS;
}

void end_memory_of(CUcontext context) {
  finish_work();
  std::vector<Allocation> ended;
  {
    Registry& r = registry();
    std::unique_lock lock(r.mutex);
    for (const auto& [base, a] : r.memory) {
      const bool ends = a.kind == AllocationKind::device || a.kind == AllocationKind::managed ||
                        a.kind == AllocationKind::pinned || a.kind == AllocationKind::registered;
      if (ends && a.context == context && !(a.flags & kOfModule)) ended.push_back(a);
    }
  }
  for (const Allocation& a : ended) {
    Allocation was;
    if (a.kind == AllocationKind::device)
      free_device(a.base);
    else if (forget(a.base, &was) && a.kind != AllocationKind::registered)
      munmap(reinterpret_cast<void*>(a.base), a.size);
  }
}

int owner_of(uintptr_t address) {
  int physical = arena_owner(address);
  if (physical >= 0) return ordinal_of(physical);
  Allocation a;
  return find_memory(address, &a) ? a.device : -1;
}

}  // namespace devtrace::simulate
