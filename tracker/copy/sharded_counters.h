// Sums by key for a hot path: memory of a fixed size, in the program's image; no malloc, no lock. Threads add up in
// shards, so that those who copy at the same place do not wait for one cache line. The first threads to come have each
// a shard for themselves, where adding takes no atomic operation; those after them share the rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracker/base/assert.h"

namespace devtrace::copy {

class ShardedCounters {
 public:
  static constexpr unsigned kOwnShards = 8;
  static constexpr unsigned kSharedShards = 8;
  static constexpr size_t kCells = 2048;  // of a shard; pages that nobody touches cost nothing

  // How many times the shard has had this key before; kFull when it has no place for another one: then nothing was
  // added. Keys are not 0.
  static constexpr uint64_t kFull = ~uint64_t{0};
  uint64_t add(unsigned shard, uint64_t key, uint64_t bytes, uint64_t times = 1) {
    DEVTRACE_ASSERT(shard < kOwnShards + kSharedShards && key != 0);
    const bool own = shard < kOwnShards;
    Cell* const cells = cells_[shard];
    size_t at = key * 0x9E3779B97F4A7C15u >> (64 - kBits);
    for (size_t probe = 0; probe < kProbes; ++probe, at = (at + 1) % kCells) {
      Cell& cell = cells[at];
      uint64_t there = cell.key.load(std::memory_order_relaxed);
      if (there == 0 && cell.key.compare_exchange_strong(there, key, std::memory_order_relaxed)) there = key;
      if (there != key) continue;
      increase(cell.bytes, bytes, own);
      return increase(cell.times, times, own);
    }
    return kFull;
  }

  // Remembers a word with a key that was just added for the first time; of several, the first.
  void mark(unsigned shard, uint64_t key, uint64_t word) {
    Cell* const cells = cells_[shard];
    size_t at = key * 0x9E3779B97F4A7C15u >> (64 - kBits);
    for (size_t probe = 0; probe < kProbes; ++probe, at = (at + 1) % kCells) {
      if (cells[at].key.load(std::memory_order_relaxed) != key) continue;
      uint64_t none = 0;
      cells[at].mark.compare_exchange_strong(none, word, std::memory_order_relaxed);
      return;
    }
  }

  // A thread's shard, for as long as it lives: it asks once.
  unsigned shard_for_new_thread() {
    const unsigned number = threads_.fetch_add(1, std::memory_order_relaxed);
    return number < kOwnShards ? number : kOwnShards + number % kSharedShards;
  }

  // Calls `visit(key, bytes, times, mark)` for what each shard holds; a key may come once from every shard. The mark is
  // 0 until it is set.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& shard : cells_)
      for (const Cell& cell : shard)
        if (const uint64_t key = cell.key.load(std::memory_order_relaxed))
          visit(key, cell.bytes.load(std::memory_order_relaxed), cell.times.load(std::memory_order_relaxed),
                cell.mark.load(std::memory_order_relaxed));
  }

  // While nobody else adds.
  void clear() {
    for (auto& shard : cells_) {
      for (Cell& cell : shard) {
        if (cell.key.load(std::memory_order_relaxed) == 0) continue;  // reading leaves an untouched page untouched
        cell.key.store(0, std::memory_order_relaxed);
        cell.bytes.store(0, std::memory_order_relaxed);
        cell.times.store(0, std::memory_order_relaxed);
        cell.mark.store(0, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr unsigned kBits = 11;
  static constexpr size_t kProbes = 32;
  static_assert(kCells == size_t{1} << kBits);

  struct alignas(32) Cell {
    std::atomic<uint64_t> key;
    std::atomic<uint64_t> bytes;
    std::atomic<uint64_t> times;
    std::atomic<uint64_t> mark;
  };

  static uint64_t increase(std::atomic<uint64_t>& sum, uint64_t by, bool own) {
    if (!own) return sum.fetch_add(by, std::memory_order_relaxed);
    const uint64_t before = sum.load(std::memory_order_relaxed);
    sum.store(before + by, std::memory_order_relaxed);
    return before;
  }

  std::atomic<unsigned> threads_{0};
  Cell cells_[kOwnShards + kSharedShards][kCells] = {};
};

}  // namespace devtrace::copy
