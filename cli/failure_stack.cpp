#include "cli/failure_stack.h"

#include <signal.h>
#include <unistd.h>

#define BOOST_STACKTRACE_USE_BACKTRACE
#include <boost/stacktrace.hpp>
#include <iostream>

namespace devtrace::cli {

void show_failure_stack() {
  struct sigaction action {};
  // The next such signal ends the command: the one raised here, or that of a failure in here.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  action.sa_handler = [](int signal) {
    // Names are made with malloc, whose lock the failed code may hold: then there is no stack, but an end.
    ::signal(SIGALRM, [](int) { ::_exit(128 + SIGABRT); });
    ::alarm(5);
    std::cerr << "devtrace: failed by signal " << signal << ":\n" << boost::stacktrace::stacktrace() << std::flush;
    ::raise(signal);
  };
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

}  // namespace devtrace::cli
