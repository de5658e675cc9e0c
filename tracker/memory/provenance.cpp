#include "tracker/memory/provenance.h"

#include "tracker/base/clock.h"
#include "tracker/base/extent_map.h"
#include "tracker/base/thread_state.h"

namespace devtrace::memory::provenance {
namespace {

// Blocks that PyTorch gave out, and allocations that CUDA gave out: the first block of an allocation has its address.
constinit ExtentMap<Block> blocks;
constinit ExtentMap<Block> allocations;

Block described(uintptr_t address, size_t bytes, Device device) {
  Block block;
  block.address = address;
  block.bytes = bytes;
  const stacks::StackId stack = stacks::capture();
  block.allocated = {stack, thread_state::id(), stacks::is_native(stack) ? now_exact() : now_coarse(), device};
  return block;
}

// Whether the statement that allocated the block copies into it now. A native stack costs more than a look-up, and the
// first copy tells: a statement that copies into what it allocated does so at once.
bool moved_by_statement(uintptr_t to, const Block& target) {
  if (target.copied_into) return false;
  blocks.update(to, [&](Block& now) { now.copied_into = now.allocated.stack == target.allocated.stack; });
  const stacks::StackId statement = stacks::statement_of(target.allocated.stack);
  return statement != 0 && statement == stacks::statement_of(stacks::capture());
}

}  // namespace

void given(uintptr_t address, size_t bytes, Device device) {
  blocks.put(described(address, bytes, device));
}
void taken(uintptr_t address) {
  Block block;
  blocks.take(address, block);
}

void allocated(uintptr_t address, size_t bytes, Device device) {
  allocations.put(described(address, bytes, device));
}
void freed(uintptr_t address) {
  Block block;
  allocations.take(address, block);
}

void freed_starting_in(uintptr_t begin, uintptr_t end) {
  allocations.take_starting_in(begin, end);
}

void copied(uintptr_t to, uintptr_t from, stacks::OnePythonStack& stack) {
  Block target;
  if (!blocks.starting_at(to, target) || target.moved_from.known()) return;
  const bool native = stacks::is_native(target.allocated.stack);
  if (!native && stack.taken() && target.allocated.stack != stack.id()) return;  // it spares the other look-up
  Block source;
  bool source_known = blocks.starting_at(from, source);
  if (source_known && source.allocated.device == target.allocated.device) return;
  if (target.allocated.thread != thread_state::id()) return;
  if (native ? !moved_by_statement(to, target) : target.allocated.stack != stack.id()) return;
  if (!source_known) source_known = blocks.around(from, source);  // a slice starts inside its block
  const Device source_device =
      source_known ? source.allocated.device : Device::cpu();  // CUDA memory always comes in known blocks
  if (source_device == target.allocated.device) return;
  Origin created;
  if (source_known) created = source.moved_from.known() ? source.created : source.allocated;
  blocks.update(to, [&](Block& now) {  // which may be another by now
    if (now.allocated.stack != target.allocated.stack || now.bytes != target.bytes) return;
    now.created = created;
    now.moved_from = source_device;
  });
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

}  // namespace devtrace::memory::provenance
