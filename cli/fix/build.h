// How a program that is compiled is built again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace devtrace::cli {

// The line of the shell that builds it, by what lies in the folder: `make`, or CMake's. Empty for what is no program of
// that folder's own, or has no such file there.
std::string build_of(const std::vector<std::string>& words, const std::filesystem::path& folder);

}  // namespace devtrace::cli
