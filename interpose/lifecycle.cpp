// Start, fork and end of the process, as the C library tells of them; what each means is the session's affair.

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/signal_handler.h"
#include "interpose/cuda/kernel_images.h"
#include "interpose/cuda/platform.h"
#include "interpose/injection.h"
#include "interpose/linking/original.h"
#include "interpose/pytorch/expected_symbols.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/thread_state.h"
#include "tracker/session.h"

namespace {

using namespace devtrace;

// Then nothing may be written. The price of a mistake is a log without an end.
bool may_be_in_a_handler() {
  return thread_state::inside() || may_be_in_signal_handler();
}

Platform platform_of_this_process() {
  Platform answers = interpose::cuda_platform();
  answers.backend = interpose::backend;
  answers.missing_symbols = interpose::missing_pytorch_symbols;
  answers.after_fork = [](bool child) {
    if (child) interpose::forget_cupti_in_child();
    interpose::kernel_images::after_fork();
  };
  answers.before_end = interpose::leave_cupti;
  return answers;
}

// Runs after the program's own exit handlers: it was registered before any of them.
void at_exit(int status, void*) {
  session::finish(status);
  if (const int code = session::exit_code(status); code != status) {
    std::fflush(nullptr);  // what a normal exit would still have written
    ORIGINAL_AS(_exit, ::_exit)(code);
  }
}

// Every process on the machine may run this: it must stay a handful of system calls.
[[gnu::constructor]] void start() {
  session::start(platform_of_this_process());
  ::pthread_atfork(session::before_fork, session::after_fork_in_parent, session::after_fork_in_child);
  ::on_exit(at_exit, nullptr);
  interpose::ask_cuda_for_injection();
  const char* text = ::getenv("DEVTRACE_OPTIONS");
  if (text && (std::strstr(text, "help=1") || std::strstr(text, "verbose="))) options();
  if (verbose()) {
    const char* const preload = ::getenv("LD_PRELOAD");
    explain("loaded into %s; LD_PRELOAD=%s; %s", program_invocation_name, preload ? preload : "", text);
  }
}

}  // namespace

extern "C" {

// In the place of every version of it that the C library has had.
__asm__(".symver _exit, _exit@@\n.symver _Exit, _Exit@@\n");

DEVTRACE_EXPORT void _exit(int status) {
  if (!may_be_in_a_handler()) session::finish(status);
  ORIGINAL(_exit)(status);
  __builtin_unreachable();
}

DEVTRACE_EXPORT void _Exit(int status) {
  if (!may_be_in_a_handler()) session::finish(status);
  ORIGINAL(_Exit)(status);
  __builtin_unreachable();
}
}
