// Frames that the optimiser left out of a stack. Where the last thing that a function does is a call, it jumps there.
// Its own frame is gone before the callee's begins (`void step() { …; cudaMemcpy(…); }` at -O2).
#pragma once

#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Puts them in again where a direct call shows which function was called in truth, and that function's code where it
// jumps from. `name` finds the names of addresses. Reads memory; for findings only.
void add_tail_calls(std::vector<NativeFrame>& frames, void (*name)(std::vector<NativeFrame>&));

}  // namespace devtrace::stacks
