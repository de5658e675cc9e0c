#include "tracker/memory/provenance.h"

#include <algorithm>

#include "tracker/base/clock.h"
#include "tracker/base/extent_map.h"
#include "tracker/base/thread_state.h"

namespace devtrace::memory::provenance {
namespace {

// A block as it is kept: there may be millions.
struct Kept {
  uintptr_t address;
  uint64_t bytes : 48;
  int64_t device : 8;
  uint64_t moved : 1;        // `moves` has its source
  uint64_t copied_into : 1;  // asked and kept for blocks with a native stack only
  stacks::StackId stack;
  uint32_t thread;
  uint64_t time;
  uint64_t key() const { return address; }

  Origin allocated() const { return {stack, thread, time, Device{static_cast<int8_t>(device)}}; }
};
static_assert(sizeof(Kept) == 32);
constexpr uint64_t kMostBytes = (uint64_t{1} << 48) - 1;

// What is known besides of a block that was filled by a move.
struct Move {
  uintptr_t address;
  Origin created;
  Device from;
  uint64_t key() const { return address; }
};

// Blocks that PyTorch gave out, and allocations that CUDA gave out: the first block of an allocation has its address.
constinit ExtentMap<Kept> blocks;
constinit ExtentMap<Kept> allocations;
constinit AddressMap<Move> moves;

Kept described(uintptr_t address, size_t bytes, Device device) {
  const stacks::StackId stack = stacks::capture();
  const uint64_t time = stacks::is_native(stack) ? now_exact() : now_coarse();
  return {address, std::min<uint64_t>(bytes, kMostBytes), device.index, 0, 0, stack, thread_state::id(), time};
}

void forget_move_of(const Kept& block) {
  Move move;
  if (block.moved) moves.take(block.address, move);
}

// Whether the statement that allocated the block copies into it now. A native stack costs more than a look-up, and the
// first copy tells: a statement that copies into what it allocated does so at once.
bool moved_by_statement(const Kept& target) {
  if (target.copied_into) return false;
  blocks.update(target.address, [&](Kept& now) { now.copied_into = now.stack == target.stack; });
  const stacks::StackId statement = stacks::statement_of(target.stack);
  return statement != 0 && statement == stacks::statement_of(stacks::capture());
}

// Where what is copied out of a block was made.
Origin made(const Kept& source) {
  Move move;
  return source.moved && moves.get(source.address, move) ? move.created : source.allocated();
}

}  // namespace

void given(uintptr_t address, size_t bytes, Device device) {
  Kept old;
  if (blocks.put(described(address, bytes, device), old)) forget_move_of(old);
}
void taken(uintptr_t address) {
  Kept block;
  if (blocks.take(address, block)) forget_move_of(block);
}

void allocated(uintptr_t address, size_t bytes, Device device) {
  allocations.put(described(address, bytes, device));
}
void freed(uintptr_t address) {
  Kept block;
  allocations.take(address, block);
}

void freed_starting_in(uintptr_t begin, uintptr_t end) {
  allocations.take_starting_in(begin, end);
}

void copied(uintptr_t to, uintptr_t from, stacks::OnePythonStack& stack) {
  Kept target;
  if (!blocks.starting_at(to, target) || target.moved) return;
  const bool native = stacks::is_native(target.stack);
  if (!native && stack.taken() && target.stack != stack.id()) return;  // it spares the other look-up
  Kept source;
  bool source_known = blocks.starting_at(from, source);
  if (source_known && source.device == target.device) return;
  if (target.thread != thread_state::id()) return;
  if (native ? !moved_by_statement(target) : target.stack != stack.id()) return;
  if (!source_known) source_known = blocks.around(from, source);  // a slice starts inside its block
  // CUDA memory always comes in known blocks.
  const Device source_device = source_known ? source.allocated().device : Device::cpu();
  if (source_device == target.allocated().device) return;
  moves.put({to, source_known ? made(source) : Origin{}, source_device});
  bool kept = false;
  blocks.update(to, [&](Kept& now) {  // which may be another by now
    kept = now.stack == target.stack && now.bytes == target.bytes;
    if (kept) now.moved = 1;
  });
  Move none;
  if (!kept) moves.take(to, none);
}

std::optional<Block> find(uintptr_t address) {
  Kept kept;
  if (!blocks.around(address, kept) && !allocations.around(address, kept)) return std::nullopt;
  Block block{kept.address, kept.bytes, kept.allocated(), {}, {}};
  if (Move move; kept.moved && moves.get(kept.address, move)) {
    block.created = move.created;
    block.moved_from = move.from;
  }
  return block;
}

void forget_all() {
  blocks.clear();
  allocations.clear();
  moves.clear();
}

void before_fork() {
  blocks.lock();
  allocations.lock();
  moves.lock();
}

void after_fork() {
  moves.unlock();
  allocations.unlock();
  blocks.unlock();
}

}  // namespace devtrace::memory::provenance
