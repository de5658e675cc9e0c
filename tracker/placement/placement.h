// Where every parameter, buffer and cache of the program's modules lies. It is sampled now and then, between two
// instructions of the main thread's Python, and written to the log when it has changed.
//
// Models are local variables more often than not, and gone when the process ends: the end alone would know nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracker/memory/live_memory.h"

namespace devtrace::placement {

namespace detail {
// What one thread has launched and copied. Plain data, no destructor: hooks still run while a thread's destructors do.
struct Counts {
  uint64_t next = 1;  // the launch at which a look is considered: until kLookEvery those that are a power of two
  uint64_t copies = 0;
  uint32_t left = 1;  // launches until then
};
[[gnu::visibility("hidden")]] extern thread_local constinit Counts counts;
[[gnu::visibility("hidden")]] extern std::atomic<bool> anything;  // launched or copied since the last sample
constexpr uint64_t kLookEvery = 64;  // launches, or copies: a clock costs as much as half a stack
bool consider_launch();
inline void note_something() {
  if (!anything.load(std::memory_order_relaxed)) [[unlikely]]
    anything.store(true, std::memory_order_relaxed);
}
}  // namespace detail

// Hot: a nanosecond, but for one call in very many, which asks Python for a sample (Py_AddPendingCall: no GIL). Any
// thread; no allocator's lock may be held. The answer is always the same, so that it can be the last call of a function
// that gives it.
inline bool launched() {
  detail::note_something();
  if (--detail::counts.left == 0) [[unlikely]]
    return detail::consider_launch();
  if (memory::live_memory::look_is_due.load(std::memory_order_relaxed)) [[unlikely]]
    return detail::consider_launch();
  return true;
}
void copied();

// Devtrace was attached: writes what lives now, under the GIL, for which a second is waited at most; without a GIL the
// main thread does, once it runs Python again.
void look_now();

// Writes what lives now. Does nothing where the calling thread does not hold the GIL.
void look_last();

// What the page beside the log lacks, where there is one.
void write_rest();

void before_fork();
void after_fork(bool child);

}  // namespace devtrace::placement
