// Facts about the calling thread that hooks need for nanoseconds.
#pragma once

#include <cstdint>

namespace devtrace::current_thread {

// Kernel thread id, cached. The cache is dropped in a fork's child (forget_after_fork).
uint32_t id();
void forget_after_fork();

// The device that this thread set last, -1 when it never did.
int device();
void set_device(int ordinal);

// True while the tracker itself is at work on this thread: what it calls may come back through hooks and must not be
// recorded.
bool inside();
// The same for as long as somebody else wants: pairs of them nest.
void enter();
void leave();

class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace devtrace::current_thread
