// The C library's ways to open a file by its name. Who opens an original for reading gets its replacement. The file is
// opened first and recognized by its device and inode. So a relative path, a link or another working folder makes no
// difference, and nothing is looked up by name for the other files.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/interposed.h"
#include "fix/overlay/table.h"
#include "fix/overlay/warn.h"

namespace {

using namespace devtrace::fix;
using devtrace::Next;

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);
using CheckedOpen = int(const char*, int);
using CheckedOpenAt = int(int, const char*, int);
using Fopen = FILE*(const char*, const char*);
using Freopen = FILE*(const char*, const char*, FILE*);

#define NEXT(Type, function) constinit Next<Type> next_##function(#function)
NEXT(Open, open);
NEXT(Open, open64);
NEXT(OpenAt, openat);
NEXT(OpenAt, openat64);
NEXT(CheckedOpen, __open_2);
NEXT(CheckedOpen, __open64_2);
NEXT(CheckedOpenAt, __openat_2);
NEXT(CheckedOpenAt, __openat64_2);
NEXT(Fopen, fopen);
NEXT(Fopen, fopen64);
NEXT(Freopen, freopen);
NEXT(Freopen, freopen64);
#undef NEXT

// Before main, and before there is a second thread: what comes later, in a fork's child or a signal's handler, finds
// all of it there.
[[gnu::constructor]] void start() {
  overlay::read_table();
  next_open.get();
  next_open64.get();
  next_openat.get();
  next_openat64.get();
  next___open_2.get();
  next___open64_2.get();
  next___openat_2.get();
  next___openat64_2.get();
  next_fopen.get();
  next_fopen64.get();
  next_freopen.get();
  next_freopen64.get();
}

// What a file is opened for. O_RDONLY with O_TRUNC empties it; O_PATH does nothing with it.
enum class Access { neither, read, write };
Access access_of(int flags) {
  if (flags & O_PATH) return Access::neither;
  return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC) ? Access::read : Access::write;
}
Access access_of(const char* mode) {
  if (!mode) return Access::neither;
  return mode[0] == 'r' && !std::strchr(mode, '+') ? Access::read : Access::write;
}

// Byte code says nothing of the text that takes its source's place. It is not there, and none is written that would
// outlive the trial. True: the call has failed.
bool refuse_byte_code(const char* path, Access access) {
  overlay::read_table();
  if (access == Access::read && overlay::is_byte_code(path)) return errno = ENOENT, true;
  if (access == Access::write && overlay::becomes_byte_code(path)) return errno = EACCES, true;
  return false;
}

// Puts the replacement under the descriptor, with the flags that it was opened with; it keeps its number, as some
// programs count on the lowest free one. Nothing has been read from it yet.
void exchange(int descriptor) {
  const int error = errno;
  struct stat status {};
  const overlay::ReplacedFile* const entry =
      ::fstat(descriptor, &status) == 0 ? overlay::replacement_of(status) : nullptr;
  if (entry) {
    const int flags = ::fcntl(descriptor, F_GETFL), close_on_exec = ::fcntl(descriptor, F_GETFD) & FD_CLOEXEC;
    const long replacement = ::syscall(SYS_openat, AT_FDCWD, entry->replacement, flags | O_CLOEXEC | O_NOCTTY, 0);
    const int dup_flags = close_on_exec ? O_CLOEXEC : 0;
    const bool done = replacement >= 0 && ::syscall(SYS_dup3, replacement, descriptor, dup_flags) >= 0;
    if (!done && !__atomic_exchange_n(&entry->failure_told, true, __ATOMIC_RELAXED))
      overlay::warn({entry->replacement, ": ", ::strerrordesc_np(errno), "; ", entry->original, " is read as it is"});
    if (replacement >= 0) ::syscall(SYS_close, replacement);
  }
  errno = error;
}

// What was opened, with its file exchanged where that is wanted.
int exchanged(int descriptor, Access access) {
  if (descriptor >= 0 && access == Access::read) exchange(descriptor);
  return descriptor;
}
FILE* exchanged(FILE* file, Access access) {
  if (file && access == Access::read) exchange(::fileno(file));
  return file;
}

}  // namespace

#define EXPORT __attribute__((visibility("default")))

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions.
#define OPEN(function)                                                      \
  EXPORT int function(const char* path, int flags, ...) {                   \
    GET_MODE(mode, flags)                                                   \
    if (refuse_byte_code(path, access_of(flags))) return -1;                \
    return exchanged(next_##function(path, flags, mode), access_of(flags)); \
  }
#define OPEN_AT(function)                                                           \
  EXPORT int function(int folder, const char* path, int flags, ...) {               \
    GET_MODE(mode, flags)                                                           \
    if (refuse_byte_code(path, access_of(flags))) return -1;                        \
    return exchanged(next_##function(folder, path, flags, mode), access_of(flags)); \
  }
#define CHECKED_OPEN(function)                                        \
  EXPORT int function(const char* path, int flags) {                  \
    if (refuse_byte_code(path, access_of(flags))) return -1;          \
    return exchanged(next_##function(path, flags), access_of(flags)); \
  }
#define CHECKED_OPEN_AT(function)                                             \
  EXPORT int function(int folder, const char* path, int flags) {              \
    if (refuse_byte_code(path, access_of(flags))) return -1;                  \
    return exchanged(next_##function(folder, path, flags), access_of(flags)); \
  }
#define FOPEN(function)                                             \
  EXPORT FILE* function(const char* path, const char* mode) {       \
    if (refuse_byte_code(path, access_of(mode))) return nullptr;    \
    return exchanged(next_##function(path, mode), access_of(mode)); \
  }
// Without a path the stream keeps its file.
#define FREOPEN(function)                                                                            \
  EXPORT FILE* function(const char* path, const char* mode, FILE* stream) {                          \
    return exchanged(next_##function(path, mode, stream), path ? access_of(mode) : Access::neither); \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)
// What the C library's headers make of them in a program that was compiled with _FORTIFY_SOURCE.
CHECKED_OPEN(__open_2)
CHECKED_OPEN(__open64_2)
CHECKED_OPEN_AT(__openat_2)
CHECKED_OPEN_AT(__openat64_2)
FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)
}
