// Files and lines of native addresses, from debug information on disk.
#pragma once

#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Fills file and line where the frame's module may be the user's and has line information. Without any such module
// nothing is read; with one, the first call in a process takes as long as Boost.Stacktrace needs to read the symbols of
// every loaded object (0.2 to 0.4 s with PyTorch), later ones microseconds. Objects loaded after the first call are not
// seen by it.
void add_lines(std::vector<NativeFrame>& frames);

void before_fork_lines();
void after_fork_lines();

}  // namespace devtrace::stacks
