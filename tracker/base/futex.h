// The kernel's wait for a word of this process to change. errno stays: a hook must not change it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace devtrace::futex {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel waits on the atomic itself");

// Returns at once where the word is not `value`, and now and then for no reason.
inline void wait(std::atomic<uint32_t>& word, uint32_t value) noexcept {
  const int saved = errno;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
  errno = saved;
}

// Up to `threads` of those that wait.
inline void wake(std::atomic<uint32_t>& word, int threads) noexcept {
  const int saved = errno;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace devtrace::futex
