// Whether the calling thread may be inside a signal's handler.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace devtrace {

// _exit is what a handler may call: PyTorch's data loaders end their workers that way. Whatever the signal interrupted
// (malloc, a report of ours) holds its locks for ever, so nothing may be written then. While a handler runs its signal
// is blocked, which hardly any thread does otherwise.
inline bool may_be_in_signal_handler() {
  sigset_t blocked;
  if (::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0) return true;
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGUSR1, SIGSEGV, SIGUSR2,
                           SIGALRM, SIGTERM, SIGCHLD, SIGXCPU, SIGVTALRM, SIGPROF})
    if (::sigismember(&blocked, signal) == 1) return true;
  return false;
}

}  // namespace devtrace
