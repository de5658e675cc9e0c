#include "simulate/model/memory/reached.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "simulate/values/uncomputed.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

constexpr int kLevels = 2;
constexpr size_t kMostBytes = 64 << 10;  // that are looked at behind one address
constexpr size_t kMostAddresses = 4096;

// Small numbers and floating point ones are told from addresses before anybody is asked.
bool may_be_address(uintptr_t word) {
  constexpr int kBits = 47;
  return word >> 32 && !(word >> kBits);
}

bool is_readable(const Allocation& a) {
  return a.kind != AllocationKind::array && (a.kind != AllocationKind::mapped || a.access);
}

}  // namespace

// A caching allocator of PyTorch's whose blocks nobody knows hands out 512 bytes at least.
size_t rest_of_block(uintptr_t address, const Allocation& a) {
  constexpr size_t kLeast = 512;
  uintptr_t begin;
  size_t size;
  const values::BlockOf block_of = values::block_of();
  if (block_of && block_of(address, &begin, &size)) return begin + size - address;
  if (!values::block_of() && values::has_torch() && a.device >= 0 && !a.pool) {
    return std::min<size_t>(kLeast - address % kLeast, a.base + a.size - address);
  }
  return a.base + a.size - address;
}

std::vector<uintptr_t> reached_from(const std::vector<uintptr_t>& addresses) {
  std::set<uintptr_t> known(addresses.begin(), addresses.end()), found;
  std::vector<uintptr_t> level = addresses;
  for (int i = 0; i < kLevels && !level.empty(); ++i) {
    std::vector<uintptr_t> next;
    for (const uintptr_t from : level) {
      Allocation a;
      if (!find_memory(from, &a) || !is_readable(a)) continue;
      const size_t size = std::min(rest_of_block(from, a), kMostBytes);
      for (uintptr_t at = (from + 7) & ~uintptr_t{7}; at + sizeof(uintptr_t) <= from + size; at += sizeof(uintptr_t)) {
        uintptr_t word;
        std::memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
        Allocation to;
        if (!may_be_address(word) || !find_memory(word, &to) || !is_readable(to) || !known.insert(word).second)
          continue;
        if (found.size() == kMostAddresses) return {found.begin(), found.end()};
        found.insert(word);
        next.push_back(word);
      }
    }
    level = std::move(next);
  }
  return {found.begin(), found.end()};
}

}  // namespace devtrace::simulate
