#include "tracker/stacks/native/modules.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace devtrace::stacks {
namespace {

// How the names of files begin whose lines help nobody who looks for a fault in their own program.
constexpr std::string_view kNotTheUsers[] = {
    "python",   "libpython", "ld-linux",  "libc.so",     "libm.so",     "libpthread",  "libdl.so", "libstdc++",
    "libc++",   "libgcc_",   "libgomp",   "libtorch",    "libc10",      "libshm.so",   "libcuda",  "libcublas",
    "libcudnn", "libcufft",  "libcufile", "libcurand",   "libcusolver", "libcusparse", "libcupti", "libcutensor",
    "libcaffe", "libnv",     "libnccl",   "libdevtrace", "linux-vdso",  "overlay.so",
};

bool by_name(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (path.find("/lib-dynload/") != path.npos) return false;  // Python's own extension modules
  for (std::string_view start : kNotTheUsers)
    if (file.starts_with(start)) return false;
  return true;
}

// A link that cannot be read (a sandbox) is the user's program. Asked once: this runs under the lock of new stacks.
bool ask_for_program() {
  const int saved = errno;
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  errno = saved;
  return size <= 0 || by_name({path, static_cast<size_t>(size)});
}

bool program_by_name() {
  static constinit std::atomic<int> known{-1};
  int answer = known.load(std::memory_order_relaxed);
  if (answer < 0) known.store(answer = ask_for_program(), std::memory_order_relaxed);
  return answer != 0;
}

}  // namespace

bool may_be_the_users(std::string_view path) {
  return path.empty() ? program_by_name() : by_name(path);
}

}  // namespace devtrace::stacks
