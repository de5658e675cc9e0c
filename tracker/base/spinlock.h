// A lock for hooks: four bytes, no constructor to run, no malloc, nothing of pthread. Spins briefly, then sleeps in the
// kernel, so that a holder that lost its processor is not spun against.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracker/base/assert.h"
#include "tracker/base/futex.h"
#include "tracker/base/processor.h"

namespace devtrace {

// Meets BasicLockable: use it with std::lock_guard. Not recursive: never call anything that may come back while holding
// it. fork(): lock it in the prepare handler and unlock it in both the parent and the child handler (the child's only
// thread is the one that took it).
class SpinLock {
 public:
  constexpr SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  bool try_lock() noexcept {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }

  void unlock() noexcept {
    const uint32_t before = state_.exchange(kFree, std::memory_order_release);
    DEVTRACE_ASSERT(before != kFree);
    if (before == kContended) [[unlikely]]
      wake();
  }

  // By whomever: for asserts.
  bool held() const noexcept { return state_.load(std::memory_order_relaxed) != kFree; }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kContended = 2;  // held, and somebody may sleep
  static constexpr int kSpins = 100;

  // Apart: whoever takes a lock that is free keeps its registers.
  [[gnu::noinline]] void wait() noexcept {
    for (int i = 0; i < kSpins; ++i) {
      pause_processor();
      if (try_lock()) return;
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree) futex::wait(state_, kContended);
  }
  [[gnu::noinline]] void wake() noexcept { futex::wake(state_, 1); }

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace devtrace
