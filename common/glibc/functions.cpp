// Small functions that glibc has got since 2.28, each with the version that it came with.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

// What libstdc++ asks before it counts a reference, since glibc 2.32: it may be another thread's, too.
extern "C" char __libc_single_threaded;
char __libc_single_threaded = 0;

// arc4random, of glibc 2.36: what std::random_device asks where it was built with it.
extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  while (::syscall(SYS_getrandom, &number, sizeof number, 0) != static_cast<long>(sizeof number)) {
  }
  return number;
}

// stat and its relatives: functions of the C library since 2.33, before that only in a header.
static_assert(sizeof(struct stat) == 144 || sizeof(struct stat) == 128, "the kernel's own structure");

extern "C" {
int stat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, 0));
}
int lstat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}
int fstat(int descriptor, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, descriptor, out));
}
int fstat64(int descriptor, struct stat64* out) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, descriptor, out));
}
}  // extern "C"

// strerrordesc_np, of glibc 2.32: what errno says, untranslated, without a lock or malloc. Of opening and reading
// files.
namespace {

struct Row {
  int error;
  const char* text;
};
constexpr Row kRows[] = {
    {EACCES, "Permission denied"},
    {EAGAIN, "Resource temporarily unavailable"},
    {EBADF, "Bad file descriptor"},
    {EFBIG, "File too large"},
    {EINTR, "Interrupted system call"},
    {EINVAL, "Invalid argument"},
    {EIO, "Input/output error"},
    {EISDIR, "Is a directory"},
    {ELOOP, "Too many levels of symbolic links"},
    {EMFILE, "Too many open files"},
    {ENAMETOOLONG, "File name too long"},
    {ENFILE, "Too many open files in system"},
    {ENODEV, "No such device"},
    {ENOENT, "No such file or directory"},
    {ENOMEM, "Cannot allocate memory"},
    {ENOTDIR, "Not a directory"},
    {ENXIO, "No such device or address"},
    {EOVERFLOW, "Value too large for defined data type"},
    {EPERM, "Operation not permitted"},
    {ESTALE, "Stale file handle"},
    {ETXTBSY, "Text file busy"},
};

}  // namespace

extern "C" const char* strerrordesc_np(int error) noexcept {
  for (const Row& row : kRows)
    if (row.error == error) return row.text;
  return "an error that has no name here";
}
