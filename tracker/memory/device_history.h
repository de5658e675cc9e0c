// Who made a thread's device the current one, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::memory::device_history {

struct Choice {
  int device = -1;  // -1: a context that somebody made current
  stacks::StackId stack = 0;
  uint64_t time = 0;  // nanoseconds since the epoch; in the order of the thread's own allocations
};

// Hot. The calling thread's device was set, by cudaSetDevice's hook with that frame; null: in another way. What one
// statement sets and then puts back (PyTorch's device guards, around nearly every operation) leaves no trace.
void chosen(int device, const void* hook = nullptr);

// The choice that still holds; nothing when this thread never made one: CUDA then takes the first device.
std::optional<Choice> last();

// That one and those that it stands on, oldest first: at most eight.
std::vector<Choice> kept();

// Of any thread, running or gone, by its kernel thread id: the choice that held at a time.
struct AtATime {
  std::optional<Choice> choice;
  bool by_default = false;  // it had made none: CUDA took the first device
};
AtATime held_at(uint32_t thread, uint64_t time);

// Whether a thread without a choice is known to have made none: not where devtrace was attached later.
bool seen_from_start();

// What was chosen while nobody looked is not known: of all threads.
void forget_all();

}  // namespace devtrace::memory::device_history
