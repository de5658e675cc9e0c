// A map for hot paths that many threads use at once: 64 shards of open addressing, in memory of its own (no malloc).
// Looking something up takes no lock: a shard counts its changes, and who reads looks whether one came in between.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "tracker/base/assert.h"
#include "tracker/base/spinlock.h"

namespace devtrace {

// Value: trivially copyable, all zero bytes when empty, with `uint64_t key() const`, its first 8 bytes, which are not 0
// for a real one.
template <class Value>
class AddressMap {
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) % sizeof(uint64_t) == 0);
  static_assert(alignof(Value) >= std::atomic_ref<uint64_t>::required_alignment);

 public:
  // Replaces what is there under the same key.
  void put(const Value& value) {
    Value old;
    put(value, old);
  }
  // `old` is what it replaces; false: nothing.
  bool put(const Value& value, Value& old) { return at(value.key()).put(value, old); }
  // False when nothing is there; `out` is then anything.
  bool get(uint64_t key, Value& out) { return at(key).get(key, out); }
  // Calls `change(Value&)` on a copy of what is there, which then takes its place, with the shard's lock held; `change`
  // leaves the key as it is.
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
  // Its high bits are the good ones: keys are addresses, whose low bits say little. The highest choose the shard, those
  // below them the slot.
  static constexpr unsigned kShardBits = 6;
  static uint64_t hash(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }
  // A table of any size: the hash, as a fraction of 1, times that.
  static size_t slot_of(uint64_t key, size_t capacity) {
    return static_cast<size_t>((hash(key) << kShardBits >> 32) * capacity >> 32);
  }

  // One slot, read by some while another writes it: every word of it is atomic. On x86-64 these are plain moves.
  static constexpr size_t kWords = sizeof(Value) / sizeof(uint64_t);
  static std::atomic_ref<uint64_t> word(Value* slot, size_t index) {
    return std::atomic_ref(reinterpret_cast<uint64_t*>(slot)[index]);
  }
  static uint64_t key_of(Value* slot) { return word(slot, 0).load(std::memory_order_acquire); }
  static void load(Value* slot, Value& out) {
#pragma GCC unroll 16  // -O2 alone would make loops of four instructions around each
    for (size_t i = 0; i < kWords; ++i) {
      const uint64_t one = word(slot, i).load(std::memory_order_acquire);
      std::memcpy(reinterpret_cast<char*>(&out) + i * sizeof one, &one, sizeof one);
    }
  }
  static Value load(Value* slot) {
    Value value;
    load(slot, value);
    return value;
  }
  static void store(Value* slot, const Value& value) {
    uint64_t words[kWords];
    std::memcpy(words, &value, sizeof value);
#pragma GCC unroll 16
    for (size_t i = 0; i < kWords; ++i) word(slot, i).store(words[i], std::memory_order_release);
  }

  // Linear probing and backward-shift deletion: no tombstones, so a map that churns for days stays as fast as new.
  struct Shard {
    SpinLock lock;
    std::atomic<uint32_t> changes{0};  // odd while one is under way
    // Who reads without the lock takes `capacity` first: with a table that is larger it stays inside.
    std::atomic<size_t> capacity{0};
    std::atomic<Value*> slots{nullptr};
    size_t used = 0;

    // With the lock held.
    class Change {
     public:
      explicit Change(Shard& shard) : changes_(shard.changes), before_(changes_.load(std::memory_order_relaxed)) {
        DEVTRACE_ASSERT(shard.lock.held() && before_ % 2 == 0);
        changes_.store(before_ + 1, std::memory_order_relaxed);  // seen before any word, whose stores are releases
      }
      ~Change() { changes_.store(before_ + 2, std::memory_order_release); }
      Change(const Change&) = delete;
      Change& operator=(const Change&) = delete;

     private:
      std::atomic<uint32_t>& changes_;
      uint32_t before_;
    };

    bool put(const Value& value, Value& old) {
      DEVTRACE_ASSERT(value.key() != 0);
      const std::lock_guard hold(lock);
      const Change change(*this);
      if ((used + 1) * 4 > capacity * 3 && !grow()) return false;
      Value* const slot = &slots[locate(value.key())];
      const bool replaces = key_of(slot) != 0;
      if (replaces) load(slot, old);
      used += !replaces;
      store(slot, value);
      return replaces;
    }

    bool get(uint64_t key, Value& out) {
      const uint32_t before = changes.load(std::memory_order_acquire);
      if (before % 2 == 0) {
        const bool found = get_unlocked(key, out);
        // The loads were acquires: none of them comes after this one.
        if (changes.load(std::memory_order_relaxed) == before) return found;
      }
      const std::lock_guard hold(lock);
      if (used == 0) return false;
      Value* const slot = &slots[locate(key)];
      if (key_of(slot) == 0) return false;
      load(slot, out);
      return true;
    }

    // What it says counts only if nothing changed meanwhile.
    bool get_unlocked(uint64_t key, Value& out) {
      const size_t size = capacity.load(std::memory_order_acquire);
      if (size == 0) return false;
      Value* const table = slots.load(std::memory_order_acquire);
      size_t index = slot_of(key, size);
      // A table that changes may hold no empty slot.
      for (size_t probes = 0; probes < size; ++probes, index = index + 1 == size ? 0 : index + 1) {
        const uint64_t there = key_of(&table[index]);
        if (there == 0) return false;
        if (there != key) continue;
        load(&table[index], out);
        return true;
      }
      return false;
    }

    template <class Changed>
    void update(uint64_t key, const Changed& changed) {
      const std::lock_guard hold(lock);
      if (used == 0) return;
      Value* const slot = &slots[locate(key)];
      if (key_of(slot) == 0) return;
      Value value = load(slot);
      changed(value);
      DEVTRACE_ASSERT(value.key() == key);
      const Change change(*this);
      store(slot, value);
    }

    template <class Agreed>
    bool take(uint64_t key, Value& out, const Agreed& agreed) {
      const std::lock_guard hold(lock);
      if (used == 0) return false;
      size_t hole = locate(key);
      Value value = load(&slots[hole]);
      if (value.key() == 0 || !agreed(value)) return false;
      out = value;
      const Change change(*this);
      --used;
      for (size_t next = following(hole); key_of(&slots[next]) != 0; next = following(next)) {
        // The entry may move into the hole unless its home lies cyclically after it.
        if (distance(home(key_of(&slots[next])), next) >= distance(hole, next)) {
          store(&slots[hole], load(&slots[next]));
          hole = next;
        }
      }
      store(&slots[hole], Value{});
      return true;
    }

    template <class Visit>
    void for_each(const Visit& visit) {
      const std::lock_guard hold(lock);
      for (size_t i = 0; i < capacity; ++i)
        if (key_of(&slots[i]) != 0) visit(load(&slots[i]));
    }

    void clear() {
      const std::lock_guard hold(lock);
      const Change change(*this);
      for (size_t i = 0; i < capacity; ++i) store(&slots[i], Value{});
      used = 0;
    }

    size_t home(uint64_t key) const { return slot_of(key, capacity); }
    size_t following(size_t index) const { return index + 1 == capacity ? 0 : index + 1; }
    size_t distance(size_t from, size_t to) const { return to >= from ? to - from : to + capacity - from; }

    size_t locate(uint64_t key) const {
      DEVTRACE_ASSERT(used < capacity);  // or it would search for ever
      size_t index = home(key);
      for (uint64_t there; (there = key_of(&slots[index])) != 0 && there != key;) index = following(index);
      return index;
    }

    // Within a Change. By half: a table is at least half full, so a value takes at most twice its size.
    bool grow() {
      const size_t smaller = capacity, larger = smaller ? smaller + smaller / 2 : 256;
      DEVTRACE_ASSERT(larger < (uint64_t{1} << 32) && used <= smaller);
      void* memory =
          ::mmap(nullptr, larger * sizeof(Value), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      // Out of memory: what is known stays, and new values go unrecorded as long as the map would be too full to probe.
      if (memory == MAP_FAILED) return used + 1 < smaller;
      Value* const old = slots;
      slots.store(static_cast<Value*>(memory), std::memory_order_release);
      capacity.store(larger, std::memory_order_release);
      for (size_t i = 0; i < smaller; ++i)
        if (const Value value = load(&old[i]); value.key() != 0) store(&slots[locate(value.key())], value);
      // Its addresses stay: somebody may be reading it.
      if (old) ::madvise(old, smaller * sizeof(Value), MADV_DONTNEED);
      return true;
    }
  };

  Shard& at(uint64_t key) {
    return shards_[hash(key) >> (64 - kShardBits)];
  }

  Shard shards_[1 << kShardBits];
};

}  // namespace devtrace
