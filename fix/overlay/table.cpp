#include "fix/overlay/table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fix/overlay/warn.h"

namespace devtrace::fix::overlay {
namespace {

// A file's name without its folders and its last suffix.
struct Stem {
  const char* text = nullptr;
  size_t size = 0;
};

struct Row {
  ReplacedFile entry;
  Stem stem;
  Stem real_stem;  // of the file that a link in the original's place leads to
  char real_path[PATH_MAX] = {};
};

constinit std::atomic<int> state{0};
enum State { kUnread, kReading, kRead };
constinit const Row* rows = nullptr;
constinit size_t row_count = 0;

// Not open(2), which is this library's own and a cancellation point.
int open_quietly(const char* path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0));
}
void close_quietly(int descriptor) {
  ::syscall(SYS_close, descriptor);
}

// Zeroed pages; null with errno.
void* pages(size_t size) {
  void* const found = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return found == MAP_FAILED ? nullptr : found;
}

// The whole file, with a zero behind it; null with errno.
char* contents(const char* path) {
  const int file = open_quietly(path, O_RDONLY | O_NONBLOCK);
  if (file < 0) return nullptr;
  struct stat status {};
  char* text = nullptr;
  if (::fstat(file, &status) == 0) {
    const auto size = static_cast<size_t>(status.st_size);
    text = S_ISREG(status.st_mode) ? static_cast<char*>(pages(size + 1)) : nullptr;
    if (!S_ISREG(status.st_mode)) errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    for (size_t have = 0; text && have < size;) {
      const long got = ::syscall(SYS_read, file, text + have, size - have);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) text = nullptr;
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
  }
  const int error = errno;
  close_quietly(file);
  errno = error;
  return text;
}

Stem stem_of(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash ? slash + 1 : path;
  const char* const dot = std::strrchr(name, '.');
  return {name, dot && dot != name ? static_cast<size_t>(dot - name) : std::strlen(name)};
}

// Where the descriptor's file lies, links followed; empty where that cannot be told.
void real_path(int descriptor, char* out, size_t size) {
  char link[32] = "/proc/self/fd/";
  char digits[16];
  size_t count = 0;
  for (unsigned rest = static_cast<unsigned>(descriptor); count == 0 || rest; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  for (size_t at = std::strlen(link); count > 0;) link[at++] = digits[--count];
  const ssize_t length = ::readlink(link, out, size - 1);
  out[length > 0 ? length : 0] = '\0';
}

// False: there is no such file, so nobody can read it either.
bool identify(Row& row) {
  const int file = open_quietly(row.entry.original, O_PATH);
  if (file < 0) return false;
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0;
  row.entry.device = status.st_dev;
  row.entry.inode = status.st_ino;
  row.stem = stem_of(row.entry.original);
  real_path(file, row.real_path, sizeof row.real_path);
  row.real_stem = stem_of(row.real_path);
  close_quietly(file);
  return known;
}

// Cuts a line in two: `original<TAB>replacement`, both absolute.
bool split(char* line, Row& row) {
  char* const tab = std::strchr(line, '\t');
  if (!tab) return false;
  *tab = '\0';
  row.entry.original = line;
  row.entry.replacement = tab + 1;
  return line[0] == '/' && tab[1] == '/' && !std::strchr(tab + 1, '\t');
}

void read(const char* path) {
  constexpr const char* kNothing = "; every file is read as it is";
  char* text = contents(path);
  size_t lines = 1;
  for (const char* at = text; at && *at; ++at) lines += *at == '\n';
  Row* const all = text ? static_cast<Row*>(pages(lines * sizeof(Row))) : nullptr;
  if (!all) return warn({"DEVTRACE_OVERLAY=", path, ": ", ::strerrordesc_np(errno), kNothing});
  size_t count = 0;
  while (text) {
    char* const line = ::strsep(&text, "\n");
    if (!*line) continue;
    Row& row = all[count];
    if (!split(line, row))
      return warn({"DEVTRACE_OVERLAY=", path, ": '", line, "' is not two absolute paths with a tab between", kNothing});
    if (identify(row)) ++count;
  }
  rows = all;
  row_count = count;
}

bool is_name_of_byte_code(const char* name, size_t size) {
  constexpr const char kSuffix[] = ".pyc";
  constexpr size_t kSuffixSize = sizeof kSuffix - 1;
  if (size < kSuffixSize || std::memcmp(name + size - kSuffixSize, kSuffix, kSuffixSize) != 0) return false;
  const auto fits = [&](const Stem& stem) {
    return stem.size && size > stem.size + 1 + kSuffixSize && std::memcmp(name, stem.text, stem.size) == 0 &&
           name[stem.size] == '.';
  };
  for (size_t i = 0; i < row_count; ++i)
    if (fits(rows[i].stem) || fits(rows[i].real_stem)) return true;
  return false;
}

bool is_ready() {
  return state.load(std::memory_order_acquire) == kRead && row_count > 0;
}

}  // namespace

void read_table() {
  // Called by another library's constructor before the C library's own: there will be an environment later.
  if (!environ) return;
  int expected = kUnread;
  if (state.load(std::memory_order_acquire) == kRead || !state.compare_exchange_strong(expected, kReading)) return;
  const int error = errno;
  if (const char* path = ::getenv("DEVTRACE_OVERLAY"); path && *path) read(path);
  errno = error;
  state.store(kRead, std::memory_order_release);
}

void read_table_again() {
  rows = nullptr;
  row_count = 0;
  state.store(kUnread, std::memory_order_release);
  read_table();
}

const ReplacedFile* replacement_of(const struct stat& file) {
  if (!is_ready()) return nullptr;
  for (size_t i = 0; i < row_count; ++i)
    if (rows[i].entry.inode == file.st_ino && rows[i].entry.device == file.st_dev) return &rows[i].entry;
  return nullptr;
}

bool is_byte_code(const char* path) {
  if (!path || !is_ready()) return false;
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash ? slash + 1 : path;
  return is_name_of_byte_code(name, std::strlen(name));
}

bool becomes_byte_code(const char* path) {
  if (!path || !is_ready()) return false;
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash ? slash + 1 : path;
  size_t size = std::strlen(name);
  const size_t whole = size;
  while (size > 0 && name[size - 1] >= '0' && name[size - 1] <= '9') --size;
  if (size < whole && size > 0 && name[size - 1] == '.') return is_name_of_byte_code(name, size - 1);
  return is_name_of_byte_code(name, whole);
}

}  // namespace devtrace::fix::overlay
