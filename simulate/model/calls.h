// Which API call is under way, for whom it matters to know what came of it.
#pragma once

#include <cstdint>

namespace devtrace::sim {

// The number that a profiler knows the thread's call by; 0 where nobody listens.
uint32_t current_correlation();

}  // namespace devtrace::sim
