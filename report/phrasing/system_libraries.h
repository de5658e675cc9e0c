// Libraries that are not the program's own, told by their file names.
#pragma once

#include <string_view>

namespace devtrace::report {

// Whether nobody would point at a frame in it: those above it say more.
bool hides_callers(std::string_view path);

}  // namespace devtrace::report
