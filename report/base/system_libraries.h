// Libraries that are not the program's own, told by their file names.
#pragma once

#include <string_view>

namespace devtrace::report {

// Whether everybody has a library of that name: it tells nothing about a program.
bool is_system_library(std::string_view path);

// Whether nobody would point at a frame in it, either: those above it say more.
bool hides_callers(std::string_view path);

}  // namespace devtrace::report
