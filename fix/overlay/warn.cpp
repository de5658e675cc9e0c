#include "fix/overlay/warn.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace devtrace::fix::overlay {

void warn(std::initializer_list<const char*> parts) {
  const int error = errno;
  char line[1024] = "devtrace: ";
  size_t size = std::strlen(line);
  for (const char* part : parts)
    for (const char* at = part; *at && size < sizeof line - 1; ++at) line[size++] = *at < ' ' && *at >= 0 ? ' ' : *at;
  line[size++] = '\n';
  // The signal of a closed pipe is this thread's own: it is held back and taken away again.
  sigset_t pipe, before, pending;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  ::syscall(SYS_write, STDERR_FILENO, line, size);
  const timespec now{};
  if (::sigismember(&pending, SIGPIPE) != 1) ::sigtimedwait(&pipe, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
}

}  // namespace devtrace::fix::overlay
