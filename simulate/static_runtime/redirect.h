// Jumps at the beginning of functions in memory.
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
#ifdef __x86_64__
constexpr size_t kJumpBytes = 5;
#else
constexpr size_t kJumpBytes = 4;
#endif

// Whether a thread may run code of the same pages meanwhile.
enum class Code { not_yet_used, in_use };

// Writes all of them or none.
bool redirect(const std::vector<Jump>& jumps, Code code = Code::not_yet_used);

}  // namespace devtrace::simulate::static_runtime
