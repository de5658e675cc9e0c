// Memory whose allocation nobody saw: a library's that was loaded earlier, or that calls the driver by a way of its
// own. CUDA is asked for it at a launch, once for each 2 MiB of addresses, and the answer is kept.
#pragma once

#include <cstdint>

#include "tracker/memory/ownership.h"

namespace devtrace::memory::untracked_memory {

// At a suspicious launch: asks about the address unless its chunk is known. What CUDA knows there is owned from then
// on; where it knows nothing, nobody's. `questions`: how many this launch may still ask.
void learn(uintptr_t address, unsigned& questions);
constexpr unsigned kQuestions = 16;  // of one launch

// The device that owns an address of `known`, which is some device's memory, before it is said to be another's than
// `here`. The end of what was learnt so may have been as unseen, and that of a graph's own memory is seen by nobody.
// CUDA has the last word, and what it contradicts is forgotten. Unknown when the memory is gone.
Device owner_now(uintptr_t address, const memory::ownership::Extent& known, Device here);

}  // namespace devtrace::memory::untracked_memory
