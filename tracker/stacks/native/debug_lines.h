// Files and lines of native addresses, and the functions that were inlined there, from debug information on disk.
#pragma once

#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Fills file and line where the frame's module may be the user's and has line information. Puts a frame in front of
// it for each function that the compiler inlined there. Without any such module nothing is read. With one, the first
// call in a process takes as long as libbacktrace needs to read the symbols of every loaded object (0.2 to 0.4 s with
// PyTorch). So does the first after an object of the user's was loaded; others microseconds. Of split debug information
// the first frame of each .dwo takes some 10 ms for each MB of it.
void add_lines(std::vector<NativeFrame>& frames);

void before_fork_lines();
void after_fork_lines();

}  // namespace devtrace::stacks
