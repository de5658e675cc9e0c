// Jumps at the beginning of functions of an object that is mapped and has not run yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace devtrace::simulate::static_runtime {

struct Jump {
  uintptr_t from;
  const void* to;
};

// What a jump takes at its beginning; the rest of it lies in memory of our own near by.
constexpr size_t kJumpBytes = 5;

// Writes all of them or none. The pages are writable and not executable meanwhile: for code that no thread can be in.
bool redirect(const std::vector<Jump>& jumps);

}  // namespace devtrace::simulate::static_runtime
