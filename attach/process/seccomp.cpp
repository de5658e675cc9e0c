#include "attach/process/seccomp.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "attach/process/failure.h"
#include "common/format.h"

namespace devtrace::attach {
namespace {

constexpr int kFilters = 2;        // the mode
constexpr unsigned kSeconds = 10;  // for opening a library, on a machine that does much else

// The process and those that it comes from. The last one has no parent here; empty: one of them has ended.
std::vector<std::pair<pid_t, process::Status>> line_of(pid_t process, const StatusOf& status_of) {
  std::vector<std::pair<pid_t, process::Status>> line;
  for (pid_t each = process; each != 0; each = line.back().second.parent) {
    const auto status = status_of(each);
    if (!status) return {};
    line.emplace_back(each, *status);
  }
  return line;
}

[[noreturn]] void refuse(pid_t process, const process::Status& status, const char* what) {
  throw Failure(Code::cannot_be,
                fmt::format("process {} ({}) runs under a seccomp filter that {}: run devtrace attach under the same "
                            "filter (in its container), or start the program with: devtrace run",
                            process, status.name, what));
}

void* open_and_call(void* library) {
  void* const opened = ::dlopen(static_cast<const char*>(library), RTLD_NOW | RTLD_NODELETE);
  if (!opened) return nullptr;
  char reply[4096];
  const auto attach = reinterpret_cast<int (*)(const char*, char*, size_t)>(::dlsym(opened, "devtrace_attach"));
  const auto detach = reinterpret_cast<int (*)(char*, size_t)>(::dlsym(opened, "devtrace_detach"));
  if (attach && detach) {
    attach("text=0:html=0", reply, sizeof reply);
    detach(reply, sizeof reply);
  }
  return nullptr;
}

// The C library ends a process whose first thread has its restartable sequences registered when another one's are
// refused.
bool refuses_rseq() {
  alignas(32) static char area[32];
  return ::syscall(SYS_rseq, area, sizeof area, 0, 0) < 0 && (errno == EPERM || errno == ENOSYS);
}

// As attach/thread_call.cpp has the target's threads do it, and what native stacks are taken with. `folder`: for the
// log.
[[noreturn]] void make_calls(const char* library, const char* folder, bool registers_rseq) {
  ::alarm(kSeconds);
  ::unsetenv("DEVTRACE_OPTIONS");  // it may name a log
  if (::chdir(folder) != 0) ::_exit(1);
  const size_t bytes = ::sysconf(_SC_PAGESIZE);
  void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || ::mprotect(page, bytes, PROT_READ | PROT_EXEC) != 0) ::_exit(1);
  unsigned char there;
  ::mincore(page, bytes, &there);
  const struct timespec moment = {0, 1};
  if (::syscall(SYS_nanosleep, &moment, nullptr) != 0 || (registers_rseq && refuses_rseq())) ::_exit(1);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, open_and_call, const_cast<char*>(library)) != 0) ::_exit(1);
  ::pthread_join(thread, nullptr);
  ::munmap(page, bytes);
  ::_exit(0);
}

}  // namespace

bool have_same_filters(pid_t target, pid_t own, const StatusOf& status_of) {
  const auto above = line_of(target, status_of), ours = line_of(own, status_of);
  if (above.empty() || ours.empty()) return false;
  const auto of_both = std::ranges::find_first_of(
      above, ours, [](const auto& one, const auto& other) { return one.first == other.first; });
  const auto as_own = [&](const auto& each) {
    return each.second.seccomp == kFilters && each.second.seccomp_filters > 0 &&
           each.second.seccomp_filters == ours.front().second.seccomp_filters;
  };
  const auto alike = [&](const auto& line) {
    for (const auto& each : line) {
      if (!as_own(each)) return false;
      if (of_both != above.end() && each.first == of_both->first) break;
    }
    return true;
  };
  return alike(above) && alike(ours);
}

void check_seccomp(pid_t process, const process::Status& status) {
  for (const pid_t each : process::threads_of(process))
    if (const auto thread = process::status_of(each);
        thread && (thread->seccomp != status.seccomp || thread->seccomp_filters != status.seccomp_filters))
      refuse(process, status, "not all of its threads have, and that may end it for a call that devtrace makes in it");
  if (status.seccomp == 0 || have_same_filters(process, ::getpid(), process::status_of)) return;
  refuse(
      process, status,
      "devtrace attach does not run under, as far as can be known, and that may end it for a call that devtrace makes "
      "in it");
}

void try_under_filters(pid_t process, const std::string& library, bool registers_rseq) {
  std::string folder = std::filesystem::temp_directory_path() / "devtrace-attach-XXXXXX";
  if (!::mkdtemp(folder.data())) throw Failure(Code::cannot_be, fmt::format("{}: {}", folder, std::strerror(errno)));
  const pid_t child = ::fork();
  if (child == 0) make_calls(library.c_str(), folder.c_str(), registers_rseq);
  int how = -1;
  while (child > 0 && ::waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (how == 0) return;
  throw Failure(Code::cannot_be,
                fmt::format("process {} runs under a seccomp filter, as devtrace attach does, and that forbids what "
                            "attaching needs: start the program with devtrace run outside of it",
                            process));
}

}  // namespace devtrace::attach
