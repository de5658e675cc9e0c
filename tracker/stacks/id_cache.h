// From a 64-bit key to a small id: found without a lock in one cache line. A cache: an entry may
// be lost, never wrong.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracker/base/arena.h"
#include "tracker/base/assert.h"

namespace devtrace::stacks {

// Keys must be well mixed: their low bits choose the place, the upper 40 are compared. (Two of a million keys that meet
// in one line of eight agree in those by chance once in 10^5 processes.)
class IdCache {
 public:
  static constexpr uint32_t kMaxId = (uint32_t{1} << 24) - 1;

  constexpr explicit IdCache(size_t largest = size_t{1} << 21) : largest_(largest) {}

  // The id kept for `key`, or 0. From any thread, at any time.
  uint32_t find(uint64_t key) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return 0;
    const std::atomic<uint64_t>* line = table->slots + (key & table->mask & ~uint64_t{kLine - 1});
    for (size_t i = 0; i < kLine; ++i) {
      const uint64_t slot = line[i].load(std::memory_order_acquire);
      if (slot == 0) return 0;
      if ((slot ^ key) >> kIdBits == 0) return slot & kMaxId;
    }
    return 0;
  }

  // Keeps `id` (1 to kMaxId) for `key`. One thread at a time. `ids`: how many different ids there are. The cache grows
  // with those only: keys that will never be asked for again (of code that died) do not count, and lose their places.
  void keep(uint64_t key, uint32_t id, size_t ids, Arena& arena) {
    DEVTRACE_ASSERT(id != 0 && id <= kMaxId);
    const Table* table = table_.load(std::memory_order_relaxed);
    if (table == nullptr) table = publish(kSmallest, arena);
    while (table != nullptr && !put(*table, key, id)) {
      const size_t slots = table->mask + 1;
      const Table* larger = slots < largest_ && slots < kSlotsPerId * ids ? publish(2 * slots, arena) : nullptr;
      if (larger == nullptr) {
        replace(*table, key, id);
        return;
      }
      table = larger;
    }
  }

 private:
  static constexpr unsigned kIdBits = 24;
  static constexpr size_t kLine = 8;  // slots in a cache line
  static constexpr size_t kSmallest = 8192;
  static constexpr size_t kSlotsPerId = 8;

  struct Table {
    size_t mask;
    std::atomic<uint64_t>* slots;  // key's upper 40 bits, id; 0: free
  };

  static uint64_t pack(uint64_t key, uint32_t id) { return (key & ~uint64_t{kMaxId}) | id; }

  static bool put(const Table& table, uint64_t key, uint32_t id) {
    std::atomic<uint64_t>* line = table.slots + (key & table.mask & ~uint64_t{kLine - 1});
    for (size_t i = 0; i < kLine; ++i) {
      const uint64_t slot = line[i].load(std::memory_order_relaxed);
      if (slot == 0 || (slot ^ key) >> kIdBits == 0) {
        line[i].store(pack(key, id), std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  static void replace(const Table& table, uint64_t key, uint32_t id) {
    const size_t victim = (key >> kIdBits) % kLine;
    table.slots[(key & table.mask & ~uint64_t{kLine - 1}) + victim].store(pack(key, id), std::memory_order_release);
  }

  // Publishes a larger, empty table: the places of the old entries are not known from what is kept of their keys. They
  // come back as they are asked for. Readers may still be in the old table, so its addresses stay; they find nothing.
  const Table* publish(size_t slots, Arena& arena) {
    DEVTRACE_ASSERT((slots & (slots - 1)) == 0);
    const Table* const old = table_.load(std::memory_order_relaxed);
    auto* table = arena.make<Table>();
    auto* places = static_cast<std::atomic<uint64_t>*>(arena.allocate(slots * sizeof(uint64_t), 64));
    if (table == nullptr || places == nullptr) return nullptr;
    table->mask = slots - 1;
    table->slots = places;
    table_.store(table, std::memory_order_release);
    if (old != nullptr) arena.release_memory(old->slots, old->mask + 1);
    return table;
  }

  std::atomic<const Table*> table_{nullptr};
  size_t largest_;
};

}  // namespace devtrace::stacks
