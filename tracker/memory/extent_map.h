// Stretches of memory, found by any address inside: what an AddressMap of their starts cannot do.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tracker/base/address_map.h"
#include "tracker/base/assert.h"
#include "tracker/base/spinlock.h"

namespace devtrace::memory {

// Extent: a Value of AddressMap with `address`, which is its key, and `bytes`. Extents do not overlap; one that is put
// where another starts replaces it. Hot: no malloc, no lock held while calling out.
template <class Extent>
class ExtentMap {
 public:
  // `old` is what it replaces; false: nothing.
  [[gnu::always_inline]] bool put(const Extent& extent, Extent& old) {
    const bool replaces = extents_.put(extent, old);
    if (noting_starts_.load(std::memory_order_relaxed)) [[unlikely]]
      note_put(extent.address, extent.bytes, replaces ? old.bytes : extent.bytes);
    return replaces;
  }
  void put(const Extent& extent) {
    Extent old;
    put(extent, old);
  }

  [[gnu::always_inline]] bool take(uintptr_t address, Extent& out) {
    if (!extents_.take(address, out)) return false;
    if (noting_starts_.load(std::memory_order_relaxed)) [[unlikely]]
      forget_start(out.address, out.bytes);
    return true;
  }

  bool starting_at(uintptr_t address, Extent& out) { return extents_.get(address, out); }

  // Three look-ups for each size class in use: a microsecond at worst.
  bool around(uintptr_t address, Extent& out) {
    if (starting_at(address, out)) return true;
    index_starts();
    for (uint64_t left = classes_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
      const auto size_class = static_cast<unsigned>(std::countr_zero(left));
      const uintptr_t width = uintptr_t{1} << (size_class - 1);
      for (uintptr_t back = 0; back <= 2 * width && back <= address; back += width) {
        Start start;
        if (starts_.get(cell(size_class, address - back), start) && starting_at(start.extent, out) &&
            address - out.address < out.bytes)
          return true;
      }
    }
    return false;
  }

  // Calls `change(Extent&)` on the one that starts there, with a lock held; it leaves address and bytes as they are.
  template <class Change>
  void update(uintptr_t address, const Change& change) {
    extents_.update(address, [&](Extent& extent) {
      [[maybe_unused]] const size_t bytes = extent.bytes;
      change(extent);
      DEVTRACE_ASSERT(extent.address == address && extent.bytes == bytes);
    });
  }

  // Takes all that start in [begin, end), and calls `taken(const Extent&)` on each. Extents that follow one another
  // without a gap cost a look-up each. Where there is a gap the size classes in use are searched, cell by cell, for the
  // next start.
  template <class Taken>
  void take_starting_in(uintptr_t begin, uintptr_t end, const Taken& taken) {
    index_starts();
    while (begin < end) {
      Extent extent;
      if (take(begin, extent)) {
        taken(extent);
        begin += std::max<size_t>(extent.bytes, 1);
      } else {
        begin = next_start(begin, end);
      }
    }
  }
  void take_starting_in(uintptr_t begin, uintptr_t end) {
    take_starting_in(begin, end, [](const Extent&) {});
  }

  template <class Visit>
  void for_each(const Visit& visit) {
    extents_.for_each(visit);
  }

  void clear() {
    extents_.clear();
    starts_.clear();
  }

  void lock() {
    indexing_.lock();
    extents_.lock();
    starts_.lock();
  }
  void unlock() {
    starts_.unlock();
    extents_.unlock();
    indexing_.unlock();
  }

 private:
  // Where an extent of a size class starts. Sizes of class k are above 2^(k-1), up to 2^k, so two extents of one class
  // never start in the same cell of 2^(k-1) bytes. The one around an address starts in its cell or in one of the
  // two before it.
  struct Start {
    uint64_t cell = 0;
    uintptr_t extent = 0;
    uint64_t key() const { return cell; }
  };

  // Most programs never ask for an address inside an extent. Where extents start is noted from the first such question
  // on, which waits until all that are there are noted, too. What is put meanwhile either finds `noting_starts_` set,
  // or was put before its shard was looked through.
  void index_starts() {
    if (starts_noted_.load(std::memory_order_acquire)) return;
    const std::lock_guard hold(indexing_);
    if (starts_noted_.load(std::memory_order_relaxed)) return;
    noting_starts_.store(true);
    extents_.for_each([this](const Extent& extent) { note_start(extent.address, extent.bytes); });
    starts_noted_.store(true, std::memory_order_release);
  }
  // By numbers: an extent whose address somebody takes is not kept in registers.
  [[gnu::noinline]] void note_put(uintptr_t address, size_t bytes, size_t bytes_before) {
    if (bytes_before != bytes) forget_start(address, bytes_before);
    note_start(address, bytes);
  }

  void note_start(uintptr_t address, size_t bytes) {
    const unsigned size_class = class_of(bytes);
    starts_.put({cell(size_class, address), address});
    const uint64_t bit = uint64_t{1} << size_class;
    if (!(classes_.load(std::memory_order_relaxed) & bit)) classes_.fetch_or(bit, std::memory_order_relaxed);
  }

  static unsigned class_of(size_t bytes) {
    return bytes <= 16 ? 4 : std::min<unsigned>(static_cast<unsigned>(std::bit_width(bytes - 1)), 57);
  }
  static uint64_t cell(unsigned size_class, uintptr_t address) {
    return uint64_t{size_class} << 58 | address >> (size_class - 1);
  }
  // The lowest start in (after, end), or `end`.
  uintptr_t next_start(uintptr_t after, uintptr_t end) {
    uintptr_t lowest = end;
    for (uint64_t left = classes_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
      const auto size_class = static_cast<unsigned>(std::countr_zero(left));
      const uintptr_t width = uintptr_t{1} << (size_class - 1);
      if ((lowest - after) / width > kMostCells) return nearest_of_all(after, end);
      for (uintptr_t at = after; at < lowest; at += width - (at & (width - 1))) {
        Start start;
        if (!starts_.get(cell(size_class, at), start) || start.extent <= after || start.extent >= lowest) continue;
        lowest = start.extent;
      }
    }
    return lowest;
  }

  // The same by a look at every extent: for a range so wide that its cells are more than the extents.
  uintptr_t nearest_of_all(uintptr_t after, uintptr_t end) {
    uintptr_t lowest = end;
    extents_.for_each([&](const Extent& extent) {
      if (extent.address > after) lowest = std::min<uintptr_t>(lowest, extent.address);
    });
    return lowest;
  }
  static constexpr uintptr_t kMostCells = 4096;

  [[gnu::noinline]] void forget_start(uintptr_t address, size_t bytes) {
    Start start;
    starts_.take(cell(class_of(bytes), address), start, [&](const Start& known) { return known.extent == address; });
  }

  AddressMap<Extent> extents_;
  AddressMap<Start> starts_;
  std::atomic<uint64_t> classes_{0};
  SpinLock indexing_;
  std::atomic<bool> noting_starts_{false}, starts_noted_{false};
};

}  // namespace devtrace::memory
