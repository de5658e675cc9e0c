// Facts about the calling thread that hooks need for nanoseconds.
#pragma once

#include <cstdint>

#include "tracker/base/cancellation.h"

namespace devtrace::thread_state {

// Kernel thread id, cached. The cache is dropped in a fork's child (forget_after_fork).
uint32_t id();
void forget_after_fork();

// The device that this thread set last, -1 when it never did, or not since forget_devices.
int device();
void set_device(int ordinal);
// Of all threads: what they chose while nobody looked is not known.
void forget_devices();

// True while the tracker itself is at work on this thread: what it calls may come back through hooks and must not be
// recorded. Of every thread while devtrace is detached.
bool inside();
void set_detached(bool detached);
// The same for as long as somebody else wants: pairs of them nest.
void enter();
void leave();
bool entered();

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
