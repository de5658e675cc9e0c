// Which frames of a native stack are the user's own code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

// Whether a frame is the user's own: in a module of his. Neither of a header of the system's, CUDA's or PyTorch's
// nor of what nvcc writes around a launch.
bool is_project_frame(const stacks::NativeFrame& frame);

// The file of a frame as it can be opened: compilers leave paths as they were told them, nvcc always. A relative one is
// looked for in the working directory, then in the module's folder and those above it; where it is nowhere, it stays.
std::string source_file(const stacks::NativeFrame& frame);

// CUDA's own function in whose place one of this library's was called, by the stack's innermost frame, which is taken
// off; empty for others.
std::string take_called_function(std::vector<stacks::NativeFrame>& frames);

}  // namespace devtrace::evidence
