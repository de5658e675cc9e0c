#include "tracker/base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "tracker/base/cancellation.h"
#include "tracker/base/kernel_calls.h"
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

// How long somebody may leave a pipe or a terminal full before the rest of our text is dropped. Once that has happened,
// nothing more is waited for until there is room.
constexpr int kPatience = 2;  // seconds
constinit std::atomic<bool> stalled{false};

bool is_regular(const struct stat& status) {
  return S_ISREG(status.st_mode);
}

bool status_of(int descriptor, struct stat& status) {
  return kernel_call(SYS_fstat, descriptor, &status) == 0;
}

// A pipe that is ready for writing takes a page at once.
bool wait_for_room(int descriptor) {
  pollfd wanted{descriptor, POLLOUT, 0};
  long ready;
  do {
    timespec patience{stalled.load(std::memory_order_relaxed) ? 0 : kPatience, 0};
    ready = kernel_call(SYS_ppoll, &wanted, 1, &patience);
  } while (ready == -EINTR);
  stalled.store(ready == 0, std::memory_order_relaxed);
  return ready != 0;
}

// `written`: what went out before the fault.
int write_plain(int descriptor, std::string_view data, bool regular, size_t& written) {
  constexpr size_t kPage = 4096;
  while (written < data.size()) {
    const size_t rest = data.size() - written;
    if (!regular && !wait_for_room(descriptor)) return ETIMEDOUT;
    const long answer =
        kernel_call(SYS_write, descriptor, data.data() + written, regular ? rest : std::min(rest, kPage));
    if (answer == -EINTR || (answer == -EAGAIN && !regular)) continue;
    if (answer < 0) return static_cast<int>(-answer);
    if (answer == 0) return ENOSPC;
    written += static_cast<size_t>(answer);
  }
  return 0;
}

// Devices and descriptors that the user names himself.
bool is_named_device(const std::string& path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/");
}

// In a folder where everybody may write, like /tmp, a file of that name may be a trap: somebody else's, or another file
// of ours under a second name.
bool is_trap(const std::string& path, const struct stat& file) {
  const bool ours = file.st_uid == static_cast<uid_t>(kernel_call(SYS_geteuid)) || file.st_uid == 0;
  if (ours && file.st_nlink <= 1) return false;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat status {};
  return kernel_call(SYS_newfstatat, AT_FDCWD, folder.c_str(), &status) == 0 && (status.st_mode & S_ISVTX) &&
         (status.st_mode & S_IWOTH);
}

// The file to append to, or an error's number below 0. No link is followed, and nothing waits for another's reader.
long open_to_append(const std::string& path, struct stat& status) {
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (is_named_device(path) ? 0 : O_NOFOLLOW);
  long descriptor = kernel_call(SYS_openat, AT_FDCWD, path.c_str(), flags);
  if (descriptor == -ENOENT) descriptor = kernel_call(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CREAT, 0666);
  if (descriptor < 0) return descriptor;
  int fault = 0;
  if (!status_of(static_cast<int>(descriptor), status))
    fault = EBADF;
  else if (!is_regular(status) && !is_named_device(path))
    fault = ENOTSUP;
  else if (is_regular(status) && is_trap(path, status))
    fault = EPERM;
  if (fault == 0) return descriptor;
  kernel_call(SYS_close, descriptor);
  return -fault;
}

// What stderr was when the program began.
struct Stderr {
  bool noted = false, there = false;
  dev_t device = 0;
  ino_t inode = 0;
};
constinit Stderr first_stderr;

// The number may be another file's by now. One that the program has put there itself is meant: opened to append, or
// without a name (what captures output does so), or a pipe or a terminal. Everything else may be its data.
bool is_stderr() {
  struct stat status {};
  if (!first_stderr.noted) return true;
  if (!first_stderr.there || !status_of(STDERR_FILENO, status)) return false;
  if (status.st_dev == first_stderr.device && status.st_ino == first_stderr.inode) return true;
  if (kernel_call(SYS_fcntl, STDERR_FILENO, F_GETFD) & FD_CLOEXEC) return false;
  if (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)) return true;
  return is_regular(status) && (status.st_nlink == 0 || (kernel_call(SYS_fcntl, STDERR_FILENO, F_GETFL) & O_APPEND));
}

}  // namespace

int write_all(int descriptor, std::string_view data) {
  const NoCancellation not_cancelled;
  const SwallowSignal pipe(SIGPIPE);
  const SwallowSignal too_large(SIGXFSZ);
  struct stat status {};
  size_t written = 0;
  return write_plain(descriptor, data, status_of(descriptor, status) && is_regular(status), written);
}

void note_stderr() {
  struct stat status {};
  first_stderr = status_of(STDERR_FILENO, status) ? Stderr{true, true, status.st_dev, status.st_ino} : Stderr{true};
}

void write_stderr(std::string_view text) {
  if (is_stderr()) write_all(STDERR_FILENO, text);
}

int append(const std::string& path, std::string_view data) {
  const NoCancellation not_cancelled;
  struct stat before {};
  const long opened = open_to_append(path, before);
  if (opened < 0) return static_cast<int>(-opened);
  const auto descriptor = static_cast<int>(opened);
  const SwallowSignal too_large(SIGXFSZ);
  const SwallowSignal pipe(SIGPIPE);
  size_t written = 0;
  const int fault = write_plain(descriptor, data, is_regular(before), written);
  // Where another process has written behind the torn piece, that is its to keep.
  struct stat after {};
  if (fault && written > 0 && is_regular(before) && status_of(descriptor, after) &&
      after.st_size == before.st_size + static_cast<off_t>(written))
    kernel_call(SYS_ftruncate, descriptor, before.st_size);
  kernel_call(SYS_close, descriptor);
  return fault;
}

std::optional<std::string> read_start(const std::string& path, size_t most) {
  const NoCancellation not_cancelled;
  const long opened = kernel_call(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (opened < 0) return std::nullopt;
  struct stat status {};
  std::optional<std::string> text;
  if (status_of(static_cast<int>(opened), status) && is_regular(status)) {
    text.emplace(std::min(most, static_cast<size_t>(std::max<off_t>(status.st_size, 0))), '\0');
    size_t filled = 0;
    while (filled < text->size()) {
      const long answer = kernel_call(SYS_read, opened, text->data() + filled, text->size() - filled);
      if (answer == -EINTR) continue;
      if (answer <= 0) break;
      filled += static_cast<size_t>(answer);
    }
    text->resize(filled);
  }
  kernel_call(SYS_close, opened);
  return text;
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && is_regular(status);
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
  files::write_stderr({line, size});
  errno = saved;
}

namespace {
// A terminal obeys them: C0, DEL, and C1 in UTF-8.
void escape_into(std::string& out, std::string_view text) {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool c1 =
        byte(text[i]) == 0xc2 && i + 1 < text.size() && byte(text[i + 1]) >= 0x80 && byte(text[i + 1]) < 0xa0;
    if (byte(text[i]) >= ' ' && byte(text[i]) != 0x7f && !c1) {
      out += text[i];
      continue;
    }
    char hexadecimal[8];
    std::snprintf(hexadecimal, sizeof hexadecimal, "\\x%02x", byte(c1 ? text[++i] : text[i]));
    out += hexadecimal;
  }
}
}  // namespace

void warn(std::string_view text) {
  const int saved = errno;
  std::string line = "devtrace: ";
  escape_into(line, text);
  files::write_stderr(line += '\n');
  errno = saved;
}

void say_lines(const std::string& text) {
  const int saved = errno;
  files::write_stderr("devtrace: " + text);
  errno = saved;
}

}  // namespace devtrace
