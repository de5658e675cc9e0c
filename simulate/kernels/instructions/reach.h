// From an address in a kernel to the bytes, checked.
#pragma once

#include <cstdint>

#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

// An address in the shared memory of a cluster's block has the block's rank and 1 above these bits; without that it is
// the own block's.
constexpr uint32_t kRankShift = 24;

// Whose memory is it? Remembers the block; null: it is a fault.
uint8_t* find_memory(Machine& m, uint32_t lane, uintptr_t address, size_t size, bool writes, Extent* cache);
// The slow ways, where each access is looked at that has to be. `cache`: one of Machine::cache.
uint8_t* slowly(Machine& m, uint32_t lane, uintptr_t address, size_t size, bool writes, Extent* cache,
                Strength strength);
uint8_t* slowly_shared(Machine& m, uint32_t lane, uint64_t offset, size_t size, size_t alignment, bool writes,
                       Strength strength);

// In memory of devices.
inline uint8_t* reach(Machine& m, uint32_t lane, uintptr_t address, size_t size, size_t alignment, bool writes,
                      Extent* cache, Strength strength = Strength::weak) {
  if (cache->size >= size && address - cache->begin <= cache->size - size && !(address & (alignment - 1))) [[likely]]
    return reinterpret_cast<uint8_t*>(address);
  return slowly(m, lane, address, size, writes, cache, strength);
}
inline uint8_t* reach_shared(Machine& m, uint32_t lane, uint64_t offset, size_t size, size_t alignment, bool writes,
                             Strength strength = Strength::weak) {
  if (m.quick_shared >= size && offset <= m.quick_shared - size && !(offset & (alignment - 1))) [[likely]]
    return m.shared + offset;
  return slowly_shared(m, lane, offset, size, alignment, writes, strength);
}

// Bytes of an access: of [slot + immediate], in shared memory or anywhere. A is the address's type.
template <class A, bool kShared>
inline uint8_t* access(Machine& m, const Step& s, uint32_t lane, A address, size_t size, size_t alignment,
                       bool writes) {
  const uint64_t at = static_cast<uint64_t>(address) + static_cast<uint64_t>(s.immediate);
  if constexpr (kShared)
    return reach_shared(m, lane, sizeof(A) == 4 ? static_cast<uint32_t>(at) : at, size, alignment, writes, s.strength);
  return reach(m, lane, at, size, alignment, writes, m.cache + s.extra, s.strength);
}

}  // namespace devtrace::simulate::kernels
