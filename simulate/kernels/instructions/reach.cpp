#include "simulate/kernels/instructions/reach.h"

#include "simulate/kernels/hazards.h"

namespace devtrace::simulate::kernels {
namespace {

bool inside(uintptr_t address, size_t size, const void* begin, size_t bytes, Extent* cache) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  if (!begin || size > bytes || address - first > bytes - size) return false;
  *cache = {first, bytes};
  return true;
}

uint8_t* fault(Machine& m, FaultKind kind, uint32_t lane, uintptr_t address, size_t size, bool writes) {
  if (m.fault.kind == FaultKind::none || (goes_on(m.fault.kind) && !goes_on(kind))) {
    m.fault.address = address;
    m.fault.size = size;
    m.fault.writes = writes;
  }
  m.fail(kind, lane);
  return nullptr;
}

void watch_shared(Machine& m, uint32_t lane, uint64_t offset, size_t size, bool writes, Strength strength) {
  if (m.hazards && size <= m.shared_bytes && offset <= m.shared_bytes - size)
    m.hazards->access(lane, offset, size, writes, strength != Strength::weak);
}

// Before the access itself.
void watch(Machine& m, uint32_t lane, uintptr_t address, size_t size, bool writes, Strength strength) {
  const uintptr_t offset = address - reinterpret_cast<uintptr_t>(m.shared);
  if (offset < m.shared_bytes) return watch_shared(m, lane, offset, size, writes, strength);
  if (!m.follows) return;
  const bool reads = !writes || strength == Strength::atomic;
  if (reads && !m.memory->used(address, size, false)) fault(m, FaultKind::unwritten, lane, address, size, false);
  if (writes) m.memory->used(address, size, true);
}

}  // namespace

uint8_t* find_memory(Machine& m, uint32_t lane, uintptr_t address, size_t size, bool writes, Extent* cache) {
  const size_t alignment = size & (~size + 1);
  if (address & (alignment - 1)) return fault(m, FaultKind::misaligned, lane, address, size, writes);
  if (inside(address, size, m.shared, m.shared_bytes, cache) || inside(address, size, m.local, m.local_all, cache) ||
      (!writes && inside(address, size, m.parameters, m.parameter_bytes, cache)))
    return reinterpret_cast<uint8_t*>(address);
  for (const Machine* const block : m.cluster)
    if (block != &m && inside(address, size, block->shared, block->shared_bytes, cache))
      return reinterpret_cast<uint8_t*>(address);
  Extent found;
  const Memory::Found answer = m.memory ? m.memory->find(address, size, writes, &found) : Memory::Found::no;
  if (answer != Memory::Found::no && size <= found.size && address - found.begin <= found.size - size) {
    if (answer == Memory::Found::noted) fault(m, FaultKind::noted, lane, address, size, writes);
    *cache = found;
    return reinterpret_cast<uint8_t*>(address);
  }
  return fault(m, FaultKind::address, lane, address, size, writes);
}

uint8_t* slowly(Machine& m, uint32_t lane, uintptr_t address, size_t size, bool writes, Extent* cache,
                Strength strength) {
  if (m.looks_at_each()) {
    watch(m, lane, address, size, writes, strength);
    cache += m.caches;
    if (cache->size >= size && address - cache->begin <= cache->size - size && !(address & (size - 1)))
      return reinterpret_cast<uint8_t*>(address);
  }
  return find_memory(m, lane, address, size, writes, cache);
}

uint8_t* slowly_shared(Machine& m, uint32_t lane, uint64_t offset, size_t size, size_t alignment, bool writes,
                       Strength strength) {
  if (offset >> kRankShift) {
    const uint64_t rank = (offset >> kRankShift) - 1, in_block = offset & ((uint64_t{1} << kRankShift) - 1);
    const Machine* const block = rank < m.cluster.size() ? m.cluster[rank] : nullptr;
    const bool inside = block && size <= block->shared_bytes && in_block <= block->shared_bytes - size;
    if (!inside || offset & (alignment - 1))
      return fault(m, inside ? FaultKind::misaligned : FaultKind::shared, lane, offset, size, writes);
    return block->shared + in_block;
  }
  const bool fits = size <= m.shared_bytes && offset <= m.shared_bytes - size;
  if (!fits || offset & (alignment - 1))
    return fault(m, fits ? FaultKind::misaligned : FaultKind::shared, lane, offset, size, writes);
  watch_shared(m, lane, offset, size, writes, strength);
  return m.shared + offset;
}

}  // namespace devtrace::simulate::kernels
