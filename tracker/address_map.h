// A map for hot paths that many threads use at once: 64 shards of open addressing, in memory of its own (no malloc).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tracker/spinlock.h"

namespace devtrace {

// Value: trivially copyable, all zero bytes when empty, with `uint64_t key() const`, which is not 0 for a real one.
template <class Value>
class AddressMap {
 public:
  // Replaces what is there under the same key.
  void put(const Value& value) { at(value.key()).put(value); }
  bool get(uint64_t key, Value& out) { return at(key).get(key, out); }
  // Calls `change(Value&)` on what is there, with the shard's lock held; `change` leaves the key as it is.
  template <class Change>
  void update(uint64_t key, const Change& change) {
    at(key).update(key, change);
  }
  // Takes away what `agreed(Value&)` says may go; `out` is then what it was.
  template <class Agreed>
  bool take(uint64_t key, Value& out, const Agreed& agreed) {
    return at(key).take(key, out, agreed);
  }
  bool take(uint64_t key, Value& out) {
    return take(key, out, [](const Value&) { return true; });
  }

  void clear() {
    for (Shard& shard : shards_) shard.clear();
  }

  // Calls `visit(const Value&)` on every value, with a lock held: it does nothing but note.
  template <class Visit>
  void for_each(const Visit& visit) {
    for (Shard& shard : shards_) shard.for_each(visit);
  }

  void lock() {
    for (Shard& shard : shards_) shard.lock.lock();
  }
  void unlock() {
    for (Shard& shard : shards_) shard.lock.unlock();
  }

 private:
  // Its high bits are the good ones: keys are addresses, whose low bits say little.
  static size_t hash(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

  // Linear probing and backward-shift deletion: no tombstones, so a map that churns for days stays as fast as new.
  struct Shard {
    SpinLock lock;
    Value* slots = nullptr;
    size_t capacity = 0;
    size_t used = 0;

    void put(const Value& value) {
      const std::lock_guard hold(lock);
      if ((used + 1) * 4 > capacity * 3 && !grow()) return;
      Value& slot = slots[locate(value.key())];
      if (slot.key() == 0) ++used;
      slot = value;
    }

    bool get(uint64_t key, Value& out) {
      const std::lock_guard hold(lock);
      if (used == 0) return false;
      const Value& slot = slots[locate(key)];
      if (slot.key() == 0) return false;
      out = slot;
      return true;
    }

    template <class Change>
    void update(uint64_t key, const Change& change) {
      const std::lock_guard hold(lock);
      if (used == 0) return;
      Value& slot = slots[locate(key)];
      if (slot.key() != 0) change(slot);
    }

    template <class Agreed>
    bool take(uint64_t key, Value& out, const Agreed& agreed) {
      const std::lock_guard hold(lock);
      if (used == 0) return false;
      size_t hole = locate(key);
      if (slots[hole].key() == 0 || !agreed(slots[hole])) return false;
      out = slots[hole];
      --used;
      for (size_t next = following(hole); slots[next].key() != 0; next = following(next)) {
        // The entry may move into the hole unless its home lies cyclically after it.
        if (((next - home(slots[next].key())) & (capacity - 1)) >= ((next - hole) & (capacity - 1))) {
          slots[hole] = slots[next];
          hole = next;
        }
      }
      slots[hole] = Value{};
      return true;
    }

    template <class Visit>
    void for_each(const Visit& visit) {
      const std::lock_guard hold(lock);
      for (size_t i = 0; i < capacity; ++i)
        if (slots[i].key() != 0) visit(slots[i]);
    }

    void clear() {
      const std::lock_guard hold(lock);
      for (size_t i = 0; i < capacity; ++i) slots[i] = Value{};
      used = 0;
    }

    size_t home(uint64_t key) const { return (hash(key) >> 20) & (capacity - 1); }
    size_t following(size_t index) const { return (index + 1) & (capacity - 1); }

    size_t locate(uint64_t key) const {
      size_t index = home(key);
      while (slots[index].key() != 0 && slots[index].key() != key) index = following(index);
      return index;
    }

    bool grow() {
      const size_t larger = capacity ? capacity * 2 : 256;
      void* memory =
          ::mmap(nullptr, larger * sizeof(Value), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      // Out of memory: what is known stays, and new values go unrecorded as long as the map would be too full to probe.
      if (memory == MAP_FAILED) return used + 1 < capacity;
      Value* const old = slots;
      const size_t old_capacity = capacity;
      slots = static_cast<Value*>(memory);
      capacity = larger;
      for (size_t i = 0; i < old_capacity; ++i)
        if (old[i].key() != 0) slots[locate(old[i].key())] = old[i];
      if (old) ::munmap(old, old_capacity * sizeof(Value));
      return true;
    }
  };

  Shard& at(uint64_t key) { return shards_[hash(key) >> 58]; }

  Shard shards_[64];
};

}  // namespace devtrace
