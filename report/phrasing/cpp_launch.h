// What a statement that launches a kernel gives to it, as the program writes it. Every function answers nothing rather
// than guess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report {

// In the kernel's order: of `kernel<<<…>>>(a, b)`, of cudaLaunchKernelEx's own arguments, and of what the array points
// to that a launching function or a graph's node takes. `above`: the lines above the statement that are in its scope.
std::vector<std::string> launch_arguments(std::string_view above, std::string_view statement, std::string_view kernel);

// The stream of the statement's only launch of a kernel, or of its only call of CUDA's functions that launch one; empty
// where it says none.
std::string_view stream_of_launch(std::string_view statement, std::string_view kernel);

}  // namespace devtrace::report
