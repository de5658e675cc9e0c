// pthread_cancel ends a thread by unwinding its stack, from any call that may block. No frame of ours that has work of
// its own to do may be on it then.
#pragma once

#include <pthread.h>

namespace devtrace {

// While it lives the calling thread is not cancelled; a request stays pending for the program's next call. A few
// nanoseconds.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() {
    int ours;
    ::pthread_setcancelstate(before_, &ours);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace devtrace
