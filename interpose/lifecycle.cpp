// Start, fork and end of the process.

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "interpose/code_images.h"
#include "interpose/cuda_facts.h"
#include "interpose/injection.h"
#include "interpose/original.h"
#include "tracker/current_thread.h"
#include "tracker/findings.h"
#include "tracker/kernels.h"
#include "tracker/log.h"
#include "tracker/options.h"
#include "tracker/ownership.h"
#include "tracker/placement.h"
#include "tracker/process_start.h"
#include "tracker/provenance.h"
#include "tracker/stacks.h"
#include "tracker/traffic.h"

namespace {

using namespace devtrace;

// A vfork's child runs in its parent's memory until it calls exec or _exit: it is told apart by its pid, and must write
// nothing.
std::atomic<pid_t> own_pid{0};

// The order of locks: findings, traffic, placement, log, ownership, kernels, images, provenance, stacks. Released in
// the opposite one.
void before_fork() {
  findings::before_fork();
  traffic::before_fork();
  placement::before_fork();
  log::before_fork();
  ownership::before_fork();
  kernels::before_fork();
  interpose::code_images::before_fork();
  provenance::before_fork();
  stacks::before_fork();
}

void after_fork(bool child) {
  if (child) {
    own_pid.store(::getpid());
    process_start::note();
    current_thread::forget_after_fork();
    interpose::forget_cupti_in_child();
  }
  stacks::after_fork();
  provenance::after_fork();
  interpose::code_images::after_fork();
  kernels::after_fork();
  ownership::after_fork();
  log::after_fork(child);
  placement::after_fork(child);
  traffic::after_fork(child);
  findings::after_fork(child);
}

void finish(int status) noexcept {
  if (own_pid.load() != ::getpid()) return;
  placement::look_last();
  const current_thread::Inside inside;
  try {
    interpose::leave_cupti();
    findings::finish(status);
  } catch (...) {
  }
}

// _exit is what a handler of a signal may call: PyTorch's data loaders end their workers that way. Whatever the signal
// interrupted (malloc, a report of ours) holds its locks for ever, so nothing may be written then. While a handler runs
// its signal is blocked, which hardly any thread does otherwise; the price of a mistake is a log without an end.
bool may_be_in_a_handler() {
  if (current_thread::inside()) return true;
  sigset_t blocked;
  if (::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0) return true;
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGUSR1, SIGSEGV, SIGUSR2,
                           SIGALRM, SIGTERM, SIGCHLD, SIGXCPU, SIGVTALRM, SIGPROF})
    if (::sigismember(&blocked, signal) == 1) return true;
  return false;
}

// Runs after the program's own exit handlers: it was registered before any of them.
void at_exit(int status, void*) {
  finish(status);
  if (status == 0 && findings::faults() > 0 && options().error_exitcode > 0 && own_pid.load() == ::getpid()) {
    std::fflush(nullptr);  // what a normal exit would still have written
    ORIGINAL_AS(_exit, ::_exit)(options().error_exitcode);
  }
}

// Every process on the machine may run this: it must stay a handful of system calls.
[[gnu::constructor]] void start() {
  own_pid.store(::getpid());
  process_start::note();
  interpose::answer_runtime_questions();
  ::pthread_atfork(
      before_fork, [] { after_fork(false); }, [] { after_fork(true); });
  ::on_exit(at_exit, nullptr);
  interpose::ask_cuda_for_injection();
  const char* text = ::getenv("DEVTRACE_OPTIONS");
  if (text && std::strstr(text, "help=1")) options();
}

}  // namespace

extern "C" {

DEVTRACE_EXPORT void _exit(int status) {
  if (!may_be_in_a_handler()) finish(status);
  ORIGINAL(_exit)(status);
  __builtin_unreachable();
}

DEVTRACE_EXPORT void _Exit(int status) {
  if (!may_be_in_a_handler()) finish(status);
  ORIGINAL(_Exit)(status);
  __builtin_unreachable();
}
}
