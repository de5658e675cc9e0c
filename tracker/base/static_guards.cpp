// The guards of the C++ ABI, in place of libstdc++'s. In a fork's child those stay locked that another thread held: the
// child would wait for ever at its first tensor.
// What was half initialised is constructed once more over it. Its memory leaks; its locks are those that a fork waits
// for.
#include "tracker/base/static_guards.h"

#include <atomic>
#include <climits>
#include <cstdint>

#include "tracker/base/futex.h"

namespace {

constexpr uint32_t kFree = 0;
constexpr uint32_t kDone = 1;
constexpr uint32_t kAwaited = 2;  // added to the generation: somebody sleeps
constexpr uint32_t kGeneration = 4;

// Of processes: a child's is the next one. A guard that is held has the generation of who holds it.
constinit std::atomic<uint32_t> generation{kGeneration};

// The ABI's 64 bits. Compiled code looks at the first byte before it asks here.
struct Guard {
  std::atomic<uint8_t> initialised;
  std::atomic<uint32_t> state;
};
static_assert(sizeof(Guard) == sizeof(uint64_t));

void leave(Guard* guard, uint32_t state) {
  if (guard->state.exchange(state, std::memory_order_acq_rel) & kAwaited) devtrace::futex::wake(guard->state, INT_MAX);
}

}  // namespace

void devtrace::static_guards::after_fork_in_child() {
  generation.fetch_add(kGeneration, std::memory_order_relaxed);
}

extern "C" {

// 1: the caller initialises, and calls one of the other two then.
[[gnu::visibility("hidden")]] int __cxa_guard_acquire(Guard* guard) {
  const uint32_t own = generation.load(std::memory_order_relaxed);
  uint32_t seen = guard->state.load(std::memory_order_acquire);
  while (seen != kDone) {
    if ((seen & ~kAwaited) != own) {
      if (guard->state.compare_exchange_weak(seen, own, std::memory_order_acquire)) return 1;
    } else if ((seen & kAwaited) ||
               guard->state.compare_exchange_weak(seen, own | kAwaited, std::memory_order_acquire)) {
      devtrace::futex::wait(guard->state, own | kAwaited);
      seen = guard->state.load(std::memory_order_acquire);
    }
  }
  return 0;
}

[[gnu::visibility("hidden")]] void __cxa_guard_release(Guard* guard) {
  guard->initialised.store(1, std::memory_order_release);
  leave(guard, kDone);
}

// It threw.
[[gnu::visibility("hidden")]] void __cxa_guard_abort(Guard* guard) {
  leave(guard, kFree);
}

}  // extern "C"
