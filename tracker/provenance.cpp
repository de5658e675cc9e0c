#include "tracker/provenance.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "tracker/current_thread.h"
#include "tracker/spinlock.h"

namespace devtrace::provenance {
namespace {

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);  // a tick's precision at a quarter of the cost
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

// Blocks are at least 16 bytes apart, and the caching allocator's 512: the low bits say nothing.
size_t hash(uintptr_t address) {
  return (address >> 4) * 0x9E3779B97F4A7C15u;
}

// Open addressing with linear probing and backward-shift deletion: no tombstones, so a table that churns for days stays
// as fast as new.
class Shard {
 public:
  void insert(const Block& block) {
    const std::lock_guard hold(lock_);
    if ((used_ + 1) * 4 > capacity_ * 3 && !grow()) return;
    Block& slot = slots_[locate(block.address)];
    if (slot.address == 0) ++used_;
    slot = block;
  }

  void erase(uintptr_t address) {
    const std::lock_guard hold(lock_);
    if (used_ == 0) return;
    size_t hole = locate(address);
    if (slots_[hole].address == 0) return;
    --used_;
    for (size_t next = following(hole); slots_[next].address != 0; next = following(next)) {
      // The entry may move into the hole unless its home lies cyclically after it.
      if (((next - home(slots_[next].address)) & (capacity_ - 1)) >= ((next - hole) & (capacity_ - 1))) {
        slots_[hole] = slots_[next];
        hole = next;
      }
    }
    slots_[hole] = Block{};
  }

  bool read(uintptr_t address, Block& out) {
    const std::lock_guard hold(lock_);
    if (used_ == 0) return false;
    const Block& slot = slots_[locate(address)];
    if (slot.address == 0) return false;
    out = slot;
    return true;
  }

  // Stores `created` and `from` in a block if it still is the one that was read.
  void mark_moved(const Block& block, const Origin& created, Device from) {
    const std::lock_guard hold(lock_);
    if (used_ == 0) return;
    Block& slot = slots_[locate(block.address)];
    if (slot.address == 0 || slot.allocated.stack != block.allocated.stack || slot.bytes != block.bytes) return;
    slot.created = created;
    slot.moved_from = from;
  }

  bool search(uintptr_t address, Block& out) {
    const std::lock_guard hold(lock_);
    for (size_t i = 0; i < capacity_; ++i) {
      const Block& slot = slots_[i];
      if (slot.address != 0 && address >= slot.address && address - slot.address < slot.bytes) {
        out = slot;
        return true;
      }
    }
    return false;
  }

  SpinLock& lock() { return lock_; }

 private:
  size_t home(uintptr_t address) const { return (hash(address) >> 20) & (capacity_ - 1); }
  size_t following(size_t index) const { return (index + 1) & (capacity_ - 1); }

  size_t locate(uintptr_t address) const {
    size_t index = home(address);
    while (slots_[index].address != 0 && slots_[index].address != address) index = following(index);
    return index;
  }

  bool grow() {
    const size_t capacity = capacity_ ? capacity_ * 2 : 256;
    void* memory =
        ::mmap(nullptr, capacity * sizeof(Block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Out of memory: what is known stays, new blocks go unrecorded as long as the table would be too full to probe.
    if (memory == MAP_FAILED) return used_ + 1 < capacity_;
    Block* const old = slots_;
    const size_t old_capacity = capacity_;
    slots_ = static_cast<Block*>(memory);
    capacity_ = capacity;
    for (size_t i = 0; i < old_capacity; ++i)
      if (old[i].address != 0) slots_[locate(old[i].address)] = old[i];
    if (old) ::munmap(old, old_capacity * sizeof(Block));
    return true;
  }

  SpinLock lock_;
  Block* slots_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

constexpr size_t kShards = 64;

struct Table {
  Shard shards[kShards];
  Shard& at(uintptr_t address) { return shards[hash(address) >> 58]; }
};

// Blocks that PyTorch gave out, and allocations that CUDA gave out: the first block of an allocation has its address.
constinit Table blocks;
constinit Table allocations;

Block described(uintptr_t address, size_t bytes, Device device) {
  Block block;
  block.address = address;
  block.bytes = bytes;
  block.allocated = {stacks::capture_python(), current_thread::id(), now(), device};
  return block;
}

std::optional<Block> find_in(Table& table, uintptr_t address, bool search) {
  Block block;
  if (table.at(address).read(address, block)) return block;
  if (search)
    for (Shard& shard : table.shards)
      if (shard.search(address, block)) return block;
  return std::nullopt;
}

}  // namespace

void given(uintptr_t address, size_t bytes, Device device) {
  blocks.at(address).insert(described(address, bytes, device));
}
void taken(uintptr_t address) {
  blocks.at(address).erase(address);
}

void allocated(uintptr_t address, size_t bytes, Device device) {
  allocations.at(address).insert(described(address, bytes, device));
}
void freed(uintptr_t address) {
  allocations.at(address).erase(address);
}

void copied(uintptr_t to, uintptr_t from) {
  Block target;
  if (!blocks.at(to).read(to, target) || target.moved_from.known()) return;
  Block source;
  const bool source_known = blocks.at(from).read(from, source);
  const Device source_device =
      source_known ? source.allocated.device : Device::cpu();  // CUDA memory always comes in known blocks
  if (source_device == target.allocated.device) return;
  if (target.allocated.thread != current_thread::id() || target.allocated.stack != stacks::capture_python()) return;
  Origin created;
  if (source_known) created = source.moved_from.known() ? source.created : source.allocated;
  blocks.at(to).mark_moved(target, created, source_device);
}

std::optional<Block> find(uintptr_t address) {
  if (const auto block = find_in(blocks, address, false)) return block;
  if (const auto block = find_in(blocks, address, true)) return block;
  return find_in(allocations, address, true);
}

void before_fork() {
  for (Table* table : {&blocks, &allocations})
    for (Shard& shard : table->shards) shard.lock().lock();
}

void after_fork() {
  for (Table* table : {&blocks, &allocations})
    for (Shard& shard : table->shards) shard.lock().unlock();
}

}  // namespace devtrace::provenance
