// Memory whose allocation nobody saw: a library's that was loaded earlier, or that calls the driver by a way of its
// own. CUDA is asked for it at a launch, once for each 2 MiB of addresses, and the answer is kept.
#pragma once

#include <cstdint>

namespace devtrace::unseen_memory {

// At a suspicious launch: asks about the address unless its chunk is known. What CUDA knows there is owned from then
// on; where it knows nothing, nobody's. `questions`: how many this launch may still ask.
void learn(uintptr_t address, unsigned& questions);
constexpr unsigned kQuestions = 16;  // of one launch

// Whether memory that was learnt so still is what it was: its end may have been as unseen. Forgets it otherwise.
bool still_there(uintptr_t address);

}  // namespace devtrace::unseen_memory
