// What must always hold inside the tracker, looked at in debug builds only (make DEBUG=1, make SANITIZE=…): a release
// never ends a program for a mistake of ours.
#pragma once

#ifdef DEVTRACE_DEBUG

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace devtrace {
// Without malloc and stdio: it may fail in any hook.
[[noreturn, gnu::cold]] inline void assert_failed(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}
}  // namespace devtrace

#define DEVTRACE_ASSERT_TEXT_(line) #line
#define DEVTRACE_ASSERT_AT_(file, line, condition) \
  "devtrace: " file ":" DEVTRACE_ASSERT_TEXT_(line) ": does not hold: " condition "\n"
#define DEVTRACE_ASSERT(condition) \
  ((condition) ? void() : ::devtrace::assert_failed(DEVTRACE_ASSERT_AT_(__FILE__, __LINE__, #condition)))

#else

// The condition is read by the compiler and never run.
#define DEVTRACE_ASSERT(condition) static_cast<void>(sizeof(!(condition)))

#endif
