#include "fix/trials/workspace.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/format.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

bool marked(const fs::path& process, const std::string& mark) {
  std::ifstream in(process / "environ", std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  const size_t at = all.find(mark);
  if (at == all.npos || (at > 0 && all[at - 1] != '\0')) return false;
  const size_t end = at + mark.size();
  return end >= all.size() || all[end] == '\0' || all[end] == '/';
}

// Waits until the other process has gone, then clears up.
[[noreturn]] void guard(int pipe, const fs::path& folder) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_NAME, kGuard);
  char byte;
  while (read(pipe, &byte, 1) != 0) {
    if (errno != EINTR) break;
  }
  kill_all_of(folder);
  std::error_code ignored;
  for (int round = 0; round < 10 && fs::exists(folder, ignored); ++round) fs::remove_all(folder, ignored);
  _exit(0);
}

}  // namespace

int kill_all_of(const fs::path& folder) {
  const std::string mark = fmt::format("{}={}", kMark, folder.string());
  int killed = 0;
  // In the midst of its exec a process shows no environment: one look that finds none is not enough.
  constexpr int kLooksInVain = 2;
  for (int round = 0, in_vain = 0; round < 100 && in_vain < kLooksInVain; ++round) {
    int found = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != name.npos) continue;
      const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
      if (pid == getpid() || !marked(entry.path(), mark)) continue;
      if (kill(pid, SIGKILL) == 0) ++found;
    }
    killed += found;
    in_vain = found == 0 ? in_vain + 1 : 0;
    usleep(10'000);
  }
  return killed;
}

Workspace::Workspace() {
  const char* base = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/devtrace-fix-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(name.data()))
    throw std::runtime_error(fmt::format("no temporary folder can be made: {}: {}", name, std::strerror(errno)));
  folder_ = fs::canonical(name);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
  guard_ = fork();
  if (guard_ < 0) throw std::runtime_error(fmt::format("no new process: {}", std::strerror(errno)));
  if (guard_ == 0) {
    close(ends[1]);
    guard(ends[0], folder_);
  }
  close(ends[0]);
  pipe_ = ends[1];
}

Workspace::~Workspace() {
  close(pipe_);
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

fs::path Workspace::make(const std::string& name) const {
  fs::path made = folder_ / name;
  fs::create_directories(made);
  return made;
}

}  // namespace devtrace::fix
