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

// Value: trivially copyable, with `uint64_t key() const`, its first 8 bytes, which are not 0 for a real one.
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
  [[gnu::always_inline]] bool put(const Value& value, Value& old) {
    const uint64_t hash = AddressMap::hash(value.key());
    return at(hash).put(hash, value, old);
  }
  // False when nothing is there; `out` is then anything.
  bool get(uint64_t key, Value& out) { return at(hash(key)).get(key, out); }
  // Calls `change(Value&)` on a copy of what is there, which then takes its place, with the shard's lock held; `change`
  // leaves the key as it is.
  template <class Change>
  void update(uint64_t key, const Change& change) {
    at(hash(key)).update(key, change);
  }
  // Takes away what `agreed(Value&)` says may go; `out` is then what it was.
  template <class Agreed>
  [[gnu::always_inline]] bool take(uint64_t key, Value& out, const Agreed& agreed) {
    const uint64_t hash = AddressMap::hash(key);
    return at(hash).take(hash, key, out, agreed);
  }
  [[gnu::always_inline]] bool take(uint64_t key, Value& out) {
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
  static size_t slot_of(uint64_t hash, size_t capacity) {
    return static_cast<size_t>((hash << kShardBits >> 32) * capacity >> 32);
  }

  // One slot, read by some while another writes it: every word of it is atomic. On x86-64 these are plain moves.
  static constexpr size_t kWords = sizeof(Value) / sizeof(uint64_t);
  static std::atomic_ref<uint64_t> word(Value* slot, size_t index) {
    return std::atomic_ref(reinterpret_cast<uint64_t*>(slot)[index]);
  }
  static uint64_t key_of(Value* slot) { return word(slot, 0).load(std::memory_order_acquire); }
  // `key` is what key_of just said: read again without the lock, it could be gone.
  static void load(Value* slot, uint64_t key, Value& out) {
    std::memcpy(static_cast<void*>(&out), &key, sizeof key);
#pragma GCC unroll 16  // -O2 alone would make loops of four instructions around each
    for (size_t i = 1; i < kWords; ++i) {
      const uint64_t one = word(slot, i).load(std::memory_order_acquire);
      std::memcpy(reinterpret_cast<char*>(&out) + i * sizeof one, &one, sizeof one);
    }
  }
  static Value load(Value* slot) {
    Value value;
    load(slot, key_of(slot), value);
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
    ptrdiff_t room = 0;  // values that may still come before it grows; below 0 where it could not

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

    // Inline, as `take` is: a hook that puts or takes has one frame for all it does. What is rare is apart.
    [[gnu::always_inline]] bool put(uint64_t hash, const Value& value, Value& old) {
      DEVTRACE_ASSERT(value.key() != 0);
      const std::lock_guard hold(lock);
      const Change change(*this);
      if (room <= 0 && !grow()) [[unlikely]]
        return false;
      const Place place = table().locate(hash, value.key());
      if (place.key != 0) [[unlikely]]
        load(place.slot, place.key, old);
      else
        --room;
      store(place.slot, value);
      return place.key != 0;
    }

    bool get(uint64_t key, Value& out) {
      const uint32_t before = changes.load(std::memory_order_acquire);
      if (before % 2 == 0) {
        const bool found = get_unlocked(key, out);
        // The loads were acquires: none of them comes after this one.
        if (changes.load(std::memory_order_relaxed) == before) return found;
      }
      return get_locked(key, out);
    }

    [[gnu::noinline]] bool get_locked(uint64_t key, Value& out) {
      const std::lock_guard hold(lock);
      const Table table = this->table();
      if (table.size == 0) return false;
      const Place place = table.locate(hash(key), key);
      if (place.key != 0) load(place.slot, key, out);
      return place.key != 0;
    }

    // What it says counts only if nothing changed meanwhile.
    bool get_unlocked(uint64_t key, Value& out) {
      const size_t size = capacity.load(std::memory_order_acquire);
      if (size == 0) return false;
      Value* const table = slots.load(std::memory_order_acquire);
      size_t index = slot_of(hash(key), size);
      // A table that changes may hold no empty slot.
      for (size_t probes = 0; probes < size; ++probes, index = index + 1 == size ? 0 : index + 1) {
        const uint64_t there = key_of(&table[index]);
        if (there == 0) return false;
        if (there != key) continue;
        load(&table[index], key, out);
        return true;
      }
      return false;
    }

    template <class Changed>
    void update(uint64_t key, const Changed& changed) {
      const std::lock_guard hold(lock);
      const Table table = this->table();
      if (table.size == 0) return;
      const Place place = table.locate(hash(key), key);
      if (place.key == 0) return;
      Value value = load(place.slot);
      changed(value);
      DEVTRACE_ASSERT(value.key() == key);
      const Change change(*this);
      store(place.slot, value);
    }

    template <class Agreed>
    [[gnu::always_inline]] bool take(uint64_t hash, uint64_t key, Value& out, const Agreed& agreed) {
      const std::lock_guard hold(lock);
      const Table table = this->table();
      if (table.size == 0) [[unlikely]]
        return false;
      const Place place = table.locate(hash, key);
      if (place.key == 0) return false;
      load(place.slot, key, out);
      if (!agreed(out)) return false;
      ++room;
      // Nothing to shift: one word tells all. Who is reading the value has it from before, whole.
      if (key_of(table.following(place.slot)) == 0) [[likely]]
        empty(place.slot);
      else
        close(place.slot);
      return true;
    }

    // The values that follow a slot's move up, where their homes let them.
    [[gnu::noinline]] void close(Value* hole) {
      const Change change(*this);
      const Table table = this->table();
      for (Value* next = table.following(hole); key_of(next) != 0; next = table.following(next)) {
        // The entry may move into the hole unless its home lies cyclically after it.
        if (table.distance(table.home(hash(key_of(next))), next) >= table.distance(hole, next)) {
          store(hole, load(next));
          hole = next;
        }
      }
      empty(hole);
    }
    static void empty(Value* slot) { word(slot, 0).store(0, std::memory_order_release); }

    template <class Visit>
    void for_each(const Visit& visit) {
      const std::lock_guard hold(lock);
      for (size_t i = 0; i < capacity; ++i)
        if (key_of(&slots[i]) != 0) visit(load(&slots[i]));
    }

    void clear() {
      const std::lock_guard hold(lock);
      const Change change(*this);
      for (size_t i = 0; i < capacity; ++i) empty(&slots[i]);
      room = room_of(size());
    }

    struct Place {
      Value* slot;
      uint64_t key;  // what is there: that which was looked for, or none
    };
    // Of a shard whose lock is held: nobody else changes it. Loaded once, as each load of an atomic counts.
    struct Table {
      Value* first;
      size_t size;

      Value* home(uint64_t hash) const { return first + slot_of(hash, size); }
      Value* following(Value* slot) const { return slot + 1 == first + size ? first : slot + 1; }
      size_t distance(const Value* from, const Value* to) const {
        return static_cast<size_t>(to - from) + (to >= from ? 0 : size);
      }
      // In a table that has slots, and an empty one, or it would search for ever.
      [[gnu::always_inline]] Place locate(uint64_t hash, uint64_t key) const {
        Value* slot = home(hash);
        for (uint64_t there; (there = key_of(slot)) != key; slot = following(slot))
          if (there == 0) return {slot, 0};
        return {slot, key};
      }
    };
    Table table() const {
      DEVTRACE_ASSERT(size() == 0 || room_of(size()) - room < static_cast<ptrdiff_t>(size()));
      return {slots.load(std::memory_order_relaxed), size()};
    }
    size_t size() const { return capacity.load(std::memory_order_relaxed); }

    // How many values a table takes before it grows.
    static ptrdiff_t room_of(size_t capacity) { return static_cast<ptrdiff_t>(capacity - capacity / 4); }

    // Within a Change. By half: a table is at least half full, so a value takes at most twice its size.
    [[gnu::noinline]] bool grow() {
      const size_t smaller = size(), larger = smaller ? smaller + smaller / 2 : 256;
      const ptrdiff_t used = room_of(smaller) - room;
      DEVTRACE_ASSERT(larger < (uint64_t{1} << 32) && used <= static_cast<ptrdiff_t>(smaller));
      void* memory =
          ::mmap(nullptr, larger * sizeof(Value), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      // Out of memory: what is known stays, and new values go unrecorded as long as the map would be too full to probe.
      if (memory == MAP_FAILED) return used + 1 < static_cast<ptrdiff_t>(smaller);
      Value* const old = slots;
      slots.store(static_cast<Value*>(memory), std::memory_order_release);
      capacity.store(larger, std::memory_order_release);
      room = room_of(larger) - used;
      for (size_t i = 0; i < smaller; ++i)
        if (const Value value = load(&old[i]); value.key() != 0)
          store(table().locate(hash(value.key()), value.key()).slot, value);
      // Its addresses stay: somebody may be reading it.
      if (old) ::madvise(old, smaller * sizeof(Value), MADV_DONTNEED);
      return true;
    }
  };

  // The compiler is not to see whence the place comes: it would add it up anew for each of the shard's fields.
  Shard& at(uint64_t hash) {
    Shard* shard = &shards_[hash >> (64 - kShardBits)];
    __asm__("" : "+r"(shard));
    return *shard;
  }

  Shard shards_[1 << kShardBits];
};

}  // namespace devtrace
