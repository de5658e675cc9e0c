// The events of CUDA from CUPTI, in the hooks' place.
#pragma once

#include <string>

namespace devtrace::cupti_tracer {

// Subscribes to CUPTI; from then on its callbacks tell what CUDA is asked to do. False, and one sentence in `why`,
// where that cannot be: another tool is the only subscriber, there is no libcupti. To be called before the program uses
// CUDA: what it allocated earlier has to be asked for.
//
// `hooked`: should the calling thread be in the middle of a call of CUDA's, a hook tells of that one.
bool start(bool hooked, std::string& why);

// Takes what is still under way, and leaves CUPTI. Safe to call again, and when it never started. For the process's
// exit: before the CUDA libraries' own exit handlers.
void stop();

// In a fork's child, in which CUDA and CUPTI cannot be used any more: nothing is told, nothing is called.
void after_fork_in_child();

}  // namespace devtrace::cupti_tracer
