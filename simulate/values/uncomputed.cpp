#include "simulate/values/uncomputed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

struct Range {
  uintptr_t end;
  Source source;
};
using Ranges = std::map<uintptr_t, Range>;  // by their beginnings; they do not overlap

struct Memory {
  std::mutex mutex;
  Ranges ranges;
};
Memory& memory() {
  static auto* one = new Memory;
  return *one;
}

// The first range that ends behind `begin`.
Ranges::iterator first_in(Ranges& ranges, uintptr_t begin) {
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second.end > begin) --at;
  return at;
}

void cut(Ranges& ranges, uintptr_t begin, uintptr_t end) {
  for (auto at = first_in(ranges, begin); at != ranges.end() && at->first < end;) {
    const uintptr_t from = at->first;
    const Range range = at->second;
    at = ranges.erase(at);
    if (from < begin) ranges[from] = {begin, range.source};
    if (range.end > end) ranges[end] = range;
  }
}

std::atomic<BlockOf> g_block_of{nullptr};

}  // namespace

UncomputedMemory& uncomputed() {
  static auto* one = new UncomputedMemory;
  return *one;
}

void UncomputedMemory::mark(uintptr_t begin, size_t size, Source source) {
  if (!source || !size) return;
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  cut(m.ranges, begin, begin + size);
  m.ranges[begin] = {begin + size, source};
  any = true;
}

void UncomputedMemory::clear(uintptr_t begin, size_t size) {
  if (!size || !any) return;
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  cut(m.ranges, begin, begin + size);
  any = !m.ranges.empty();
}

Source UncomputedMemory::find(uintptr_t begin, size_t size) {
  if (!size || !any) return 0;
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  for (auto at = first_in(m.ranges, begin); at != m.ranges.end() && at->first < begin + size; ++at)
    if (at->second.source != kNeverWritten) return at->second.source;
  return 0;
}

bool UncomputedMemory::never_written(uintptr_t begin, size_t size) {
  if (!size || !any) return false;
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const uintptr_t end = begin + size;
  for (auto at = first_in(m.ranges, begin); begin < end; begin = (at++)->second.end)
    if (at == m.ranges.end() || at->first > begin || at->second.source != kNeverWritten) return false;
  return true;
}

Unwritten UncomputedMemory::part(uintptr_t begin, size_t size) {
  if (!size || !any) return {};
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  Unwritten found;
  uintptr_t end = 0;
  for (auto at = first_in(m.ranges, begin); at != m.ranges.end() && at->first < begin + size; ++at) {
    if (at->second.source == kNeverWritten) continue;
    if (!end) found = {std::max(at->first, begin), 0, at->second.source};
    end = std::min(at->second.end, begin + size);
  }
  found.size = end - found.begin;
  return found;
}

void UncomputedMemory::copy(uintptr_t to, uintptr_t from, size_t size, bool to_host) {
  if (!size || !any) return;
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  std::vector<std::pair<uintptr_t, Range>> copied;
  for (auto at = first_in(m.ranges, from); at != m.ranges.end() && at->first < from + size; ++at) {
    const uintptr_t begin = std::max(at->first, from), end = std::min(at->second.end, from + size);
    if (to_host && at->second.source == kNeverWritten) continue;
    copied.push_back({to + (begin - from), {to + (end - from), at->second.source}});
  }
  cut(m.ranges, to, to + size);
  for (const auto& [begin, range] : copied) m.ranges[begin] = range;
  any = !m.ranges.empty();
}

DeferredKernel& deferred_kernel() {
  static thread_local DeferredKernel one;
  return one;
}

void give_up_deferred_kernel() {
  const DeferredKernel kernel = std::exchange(deferred_kernel(), {});
  if (kernel.mangled.empty()) return;
  not_computed_kernel(kernel.mangled);
  mark(kernel.unwritten);
}

void mark(const std::vector<Unwritten>& all) {
  for (const Unwritten& each : all) {
    uncomputed().mark(each.begin, each.size, each.source);
    poison(each.begin, each.size);
  }
}

void poison(uintptr_t begin, size_t size) {
  static const bool wanted = [] {
    const char* value = std::getenv("DEVTRACE_SIM_POISON");
    return value && !std::strcmp(value, "1");
  }();
  if (wanted) std::memset(reinterpret_cast<void*>(begin), 0xff, size);
}

void set_block_of(BlockOf function) {
  g_block_of = function;
}
BlockOf block_of() {
  return g_block_of;
}

}  // namespace devtrace::simulate::values
