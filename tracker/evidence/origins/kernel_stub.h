// What nvcc makes of a kernel for the host: a function of the kernel's name and place that launches it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

// Which frame of a launch's stack is that function; nothing where the compiler left none. `kernel`: its demangled name.
std::optional<size_t> kernel_stub(const std::vector<stacks::NativeFrame>& frames, std::string_view kernel);

// The same of what was launched, where it is that function's address: what a program gives to cudaLaunchKernel and
// cudaLaunchCooperativeKernel, which is then on no stack. As costly as stacks::symbolize.
std::optional<stacks::NativeFrame> kernel_stub_at(const void* function, std::string_view kernel);

}  // namespace devtrace::evidence
