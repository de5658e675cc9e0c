#include "tracker/base/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "tracker/base/message.h"

namespace devtrace::files {
namespace {

// Blocks a signal that this thread's own write may raise, and takes it away again if it came: the program never sees
// it. A signal that was already pending before is left for the program.
class SwallowSignal {
 public:
  explicit SwallowSignal(int signal) {
    sigemptyset(&set_);
    sigaddset(&set_, signal);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, signal) == 1;
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~SwallowSignal() {
    const int saved = errno;
    const timespec now{};
    if (!was_pending_) sigtimedwait(&set_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  SwallowSignal(const SwallowSignal&) = delete;
  SwallowSignal& operator=(const SwallowSignal&) = delete;

 private:
  sigset_t set_;
  sigset_t before_;
  bool was_pending_;
};

int write_plain(int descriptor, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    data.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

int write_all(int descriptor, std::string_view data) {
  SwallowSignal pipe(SIGPIPE);
  return write_plain(descriptor, data);
}

int append(const std::string& path, std::string_view data) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (descriptor < 0) return errno;
  struct stat before {};
  const bool regular = ::fstat(descriptor, &before) == 0 && S_ISREG(before.st_mode);
  SwallowSignal too_large(SIGXFSZ);
  SwallowSignal pipe(SIGPIPE);
  const int fault = write_plain(descriptor, data);
  if (fault && regular && ::ftruncate(descriptor, before.st_size) != 0)
    errno = 0;  // the first fault is the one to tell
  ::close(descriptor);
  return fault;
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace devtrace::files

namespace devtrace {

constinit std::atomic<bool> verbose_wanted{false};

void explain(const char* format, ...) {
  const int saved = errno;
  char line[1024];
  size_t size = static_cast<size_t>(std::snprintf(line, sizeof line, "devtrace: [%d] ", ::getpid()));
  va_list arguments;
  va_start(arguments, format);
  const int more = std::vsnprintf(line + size, sizeof line - size, format, arguments);
  va_end(arguments);
  if (more > 0) size = std::min(size + static_cast<size_t>(more), sizeof line - 1);
  for (size_t i = 0; i < size; ++i)
    if (static_cast<unsigned char>(line[i]) < ' ') line[i] = ' ';
  line[size++] = '\n';
  files::write_all(STDERR_FILENO, {line, size});
  errno = saved;
}

void say(std::string_view text) {
  const int saved = errno;
  std::string line = "devtrace: ";
  line += text;
  if (line.back() != '\n') line += '\n';
  files::write_all(STDERR_FILENO, line);
  errno = saved;
}

}  // namespace devtrace
