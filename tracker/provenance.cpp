#include "tracker/provenance.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "tracker/address_map.h"
#include "tracker/current_thread.h"

namespace devtrace::provenance {
namespace {

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);  // a tick's precision at a quarter of the cost
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

// Where a block of a size class starts. Sizes of class k are above 2^(k-1), up to 2^k, so two blocks of one class never
// start in the same cell of 2^(k-1) bytes, and the block around an address starts in its cell or one of two before it.
struct Start {
  uint64_t cell = 0;
  uintptr_t block = 0;
  uint64_t key() const { return cell; }
};

class Table {
 public:
  void insert(const Block& block) {
    Block old;
    if (blocks_.get(block.address, old) && old.bytes != block.bytes) forget_start(old);
    blocks_.put(block);
    const unsigned size_class = class_of(block.bytes);
    starts_.put({cell(size_class, block.address), block.address});
    const uint64_t bit = uint64_t{1} << size_class;
    if (!(classes_.load(std::memory_order_relaxed) & bit)) classes_.fetch_or(bit, std::memory_order_relaxed);
  }

  void erase(uintptr_t address) {
    Block block;
    if (blocks_.take(address, block)) forget_start(block);
  }

  bool starting_at(uintptr_t address, Block& out) { return blocks_.get(address, out); }

  // Some 100 look-ups at the very most.
  bool around(uintptr_t address, Block& out) {
    if (starting_at(address, out)) return true;
    for (uint64_t left = classes_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
      const auto size_class = static_cast<unsigned>(std::countr_zero(left));
      const uintptr_t width = uintptr_t{1} << (size_class - 1);
      for (uintptr_t back = 0; back <= 2 * width && back <= address; back += width) {
        Start start;
        if (starts_.get(cell(size_class, address - back), start) && starting_at(start.block, out) &&
            address - out.address < out.bytes)
          return true;
      }
    }
    return false;
  }

  // Stores `created` and `from` in a block if it still is the one that was read.
  void mark_moved(const Block& block, const Origin& created, Device from) {
    blocks_.update(block.address, [&](Block& now) {
      if (now.allocated.stack != block.allocated.stack || now.bytes != block.bytes) return;
      now.created = created;
      now.moved_from = from;
    });
  }

  void lock() {
    blocks_.lock();
    starts_.lock();
  }
  void unlock() {
    starts_.unlock();
    blocks_.unlock();
  }

 private:
  static unsigned class_of(size_t bytes) {
    return bytes <= 16 ? 4 : std::min<unsigned>(static_cast<unsigned>(std::bit_width(bytes - 1)), 57);
  }
  static uint64_t cell(unsigned size_class, uintptr_t address) {
    return uint64_t{size_class} << 58 | address >> (size_class - 1);
  }
  void forget_start(const Block& block) {
    Start start;
    starts_.take(cell(class_of(block.bytes), block.address), start,
                 [&](const Start& known) { return known.block == block.address; });
  }

  AddressMap<Block> blocks_;
  AddressMap<Start> starts_;
  std::atomic<uint64_t> classes_{0};
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

}  // namespace

void given(uintptr_t address, size_t bytes, Device device) {
  blocks.insert(described(address, bytes, device));
}
void taken(uintptr_t address) {
  blocks.erase(address);
}

void allocated(uintptr_t address, size_t bytes, Device device) {
  allocations.insert(described(address, bytes, device));
}
void freed(uintptr_t address) {
  allocations.erase(address);
}

void copied(uintptr_t to, uintptr_t from) {
  Block target;
  if (!blocks.starting_at(to, target) || target.moved_from.known()) return;
  Block source;
  bool source_known = blocks.starting_at(from, source);
  if (source_known && source.allocated.device == target.allocated.device) return;
  if (target.allocated.thread != current_thread::id() || target.allocated.stack != stacks::capture_python()) return;
  if (!source_known) source_known = blocks.around(from, source);  // a slice starts inside its block
  const Device source_device =
      source_known ? source.allocated.device : Device::cpu();  // CUDA memory always comes in known blocks
  if (source_device == target.allocated.device) return;
  Origin created;
  if (source_known) created = source.moved_from.known() ? source.created : source.allocated;
  blocks.mark_moved(target, created, source_device);
}

std::optional<Block> find(uintptr_t address) {
  Block block;
  if (blocks.around(address, block) || allocations.around(address, block)) return block;
  return std::nullopt;
}

void before_fork() {
  blocks.lock();
  allocations.lock();
}

void after_fork() {
  allocations.unlock();
  blocks.unlock();
}

}  // namespace devtrace::provenance
