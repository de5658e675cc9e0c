// strerrordesc_np, of glibc 2.32: what errno says, untranslated, without a lock or malloc. Of opening and reading
// files.
#include <cerrno>

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
