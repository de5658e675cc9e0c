// stat and its relatives: functions of the C library since 2.33, before that only in a header.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
