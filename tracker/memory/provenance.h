// Where each block of tensor memory came from: allocated where, moved from where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tracker/interface/device.h"
#include "tracker/memory/live_memory.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::memory::provenance {

// A place in the program's history.
struct Origin {
  stacks::StackId stack = 0;
  uint32_t thread = 0;  // kernel thread id
  uint64_t time = 0;    // nanoseconds since the epoch; with a Python stack to the kernel's tick
  Device device;
};

struct Block {
  uintptr_t address = 0;
  size_t bytes = 0;
  Origin allocated;   // of this block
  Origin created;     // of the memory it was first copied from when it was moved here; stack 0 and time 0 when that was
                      // not seen
  Device moved_from;  // known only when the block was filled by a move; `allocated` is then the place of the move
  bool existed =
      false;  // it, or the memory it was moved from, was there before devtrace was attached: made nobody saw where
  bool pooled = false;  // a library's pool gave it out (memory/pooled_memory.h)
};

// Whether a module of PyTorch's was ever called that took memory of a device for it: from then on the program works,
// and before it was made ready.
bool module_was_called();

// Hot: no malloc, no lock held while calling out. A block is what PyTorch's allocator gives out, or a file that it
// maps; an allocation is what CUDA gives out.
void given(uintptr_t address, size_t bytes, Device device);
void taken(uintptr_t address);
// The same with what PyTorch's allocator says of itself then; and that alone.
void given(uintptr_t address, size_t bytes, const live_memory::TorchHas& has);
void taken(uintptr_t address, const live_memory::TorchHas& has);
void torch_has(const live_memory::TorchHas& has);
void allocated(uintptr_t address, size_t bytes, Device device);
void freed(uintptr_t address);
void freed_starting_in(uintptr_t begin, uintptr_t end);

// Hot. A copy into the start of a block by the very statement that allocated it, from another device, is a move
// (`.to()`, `.cuda()`, `.cpu()`). The block then remembers its source's origin. Any other copy changes nothing.
void copied(uintptr_t to, uintptr_t from, stacks::OnePythonStack& stack);
inline void copied(uintptr_t to, uintptr_t from) {
  stacks::OnePythonStack stack;
  copied(to, from, stack);
}

// The places of the thread's last moves to that device, the newest first, whether the blocks are still there or not.
// Some hundreds of all threads' are kept. For findings only.
std::vector<Origin> recent_moves(uint32_t thread, Device to);

// What the block that `address` lies in is there for. What is said first holds as long as the block does; what was
// given while a module was called is one of the activations until then.
void is_used(uintptr_t address, live_memory::Use use);

// The block, else what a library's pool has given out of the allocation, else the allocation, that `address` lies in.
// For findings only.
std::optional<Block> block_at(uintptr_t address);

// What was given and taken while nobody looked is not known.
void forget_all();

// A block from before devtrace was attached, as PyTorch's allocator lists it. All of them are told between `begin` and
// `end`; what is taken meanwhile is not believed to live.
void begin_existing();
void existed(uintptr_t address, size_t bytes, Device device);
void end_existing();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::provenance
