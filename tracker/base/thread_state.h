// Facts about the calling thread that hooks need for nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracker/base/assert.h"
#include "tracker/base/cancellation.h"

namespace devtrace::thread_state {

namespace detail {
// Plain data, no destructor: hooks still run while a thread's destructors do.
struct State {
  uint32_t id = 0;
  int device = -1;
  int depth = 0;
  uint32_t generation = 0;  // of `device`
};
[[gnu::visibility("hidden")]] extern thread_local constinit State state;
[[gnu::visibility("hidden")]] extern std::atomic<uint32_t> generation;
[[gnu::visibility("hidden")]] extern std::atomic<bool> detached;
}  // namespace detail

// Kernel thread id, cached. The cache is dropped in a fork's child (forget_after_fork).
namespace detail {
uint32_t first_id();
}
inline uint32_t id() {
  return detail::state.id != 0 ? detail::state.id : detail::first_id();
}
void forget_after_fork();

// The device that this thread set last, -1 when it never did, or not since forget_devices.
inline int device() {
  return detail::state.generation == detail::generation.load(std::memory_order_relaxed) ? detail::state.device : -1;
}
inline void set_device(int ordinal) {
  detail::state.device = ordinal;
  detail::state.generation = detail::generation.load(std::memory_order_relaxed);
}
// Of all threads: what they chose while nobody looked is not known.
void forget_devices();

// True while the tracker itself is at work on this thread: what it calls may come back through hooks and must not be
// recorded. Of every thread while devtrace is detached.
inline bool inside() {
  return detail::state.depth != 0 || detail::detached.load(std::memory_order_relaxed);
}
void set_detached(bool detached);
// The same for as long as somebody else wants: pairs of them nest.
inline void enter() {
  ++detail::state.depth;
}
inline void leave() {
  DEVTRACE_ASSERT(detail::state.depth > 0);
  --detail::state.depth;
}
inline bool entered() {
  return detail::state.depth != 0;
}

}  // namespace devtrace::thread_state

namespace devtrace {

class ReentrancyGuard {
 public:
  ReentrancyGuard() { thread_state::enter(); }
  ~ReentrancyGuard() { thread_state::leave(); }
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;

 private:
  const NoCancellation not_cancelled_;
};

}  // namespace devtrace
