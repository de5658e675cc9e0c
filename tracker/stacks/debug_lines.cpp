// Without this Boost keeps what it read once for each thread: hundreds of milliseconds and megabytes a thread. Kept
// once for all, it must not be used by two threads at a time: see the lock.
#define BOOST_DISABLE_THREADS
#include "tracker/stacks/debug_lines.h"

#include <boost/stacktrace/frame.hpp>
#include <mutex>
#include <string>
#include <string_view>

#include "tracker/base/spinlock.h"
#include "tracker/elf/elf_file.h"

#ifdef BOOST_HAS_THREADS
#error "Boost.Stacktrace would keep its state for each thread"
#endif

namespace devtrace::stacks {

using namespace elf;
namespace {

// Names of files whose lines help nobody who looks for a fault in their own program, by how they begin.
constexpr std::string_view kNotTheUsers[] = {
    "python",  "libpython", "ld-linux", "libc.so", "libm.so",  "libpthread", "libdl.so", "libstdc++",
    "libgcc_", "libtorch",  "libc10",   "libcu",   "libcaffe", "libnv",      "libnccl",  "libdevtrace",
};

struct Module {
  std::string path;
  bool has_lines;
};

constinit SpinLock lock;
std::vector<Module>* modules = nullptr;  // never deleted: a finding may come while the process ends

bool may_have_lines(const std::string& path) {
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  if (path.find("/lib-dynload/") != std::string::npos) return false;  // Python's own extension modules
  for (std::string_view start : kNotTheUsers) {
    if (file.starts_with(start)) return false;
  }
  if (modules == nullptr) modules = new std::vector<Module>;
  for (const Module& module : *modules) {
    if (module.path == path) return module.has_lines;
  }
  const bool has_lines = ElfFile(path).has_section(".debug_line");
  modules->push_back({path, has_lines});
  return has_lines;
}

}  // namespace

void add_lines(std::vector<NativeFrame>& frames) {
  std::lock_guard hold(lock);
  for (NativeFrame& frame : frames) {
    if (frame.module.empty() || !may_have_lines(frame.module)) continue;
    const boost::stacktrace::frame boosted(reinterpret_cast<const void*>(frame.address));
    frame.file = boosted.source_file();
    if (!frame.file.empty()) frame.line = static_cast<int>(boosted.source_line());
  }
}

void before_fork_lines() {
  lock.lock();
}
void after_fork_lines() {
  lock.unlock();
}

}  // namespace devtrace::stacks
