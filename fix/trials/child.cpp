#include "fix/trials/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "fix/trials/workspace.h"

namespace devtrace::fix {
Child::Child(const ProgramToRun& program, const std::filesystem::path& output) {
  const std::string folder = program.folder.string(), file = output.string();
  started_ = std::chrono::steady_clock::now();
  pid_ = process::start(program, [&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int in = open("/dev/null", O_RDONLY), out = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (program.inherited >= 0) fcntl(program.inherited, F_SETFD, 0);
    return in >= 0 && out >= 0 && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0 &&
           (folder.empty() || chdir(folder.c_str()) == 0);
  });
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), code_(other.code_), started_(other.started_), ended_(other.ended_) {}

Child::~Child() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::ended() {
  if (pid_ < 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ended_ = std::chrono::steady_clock::now();
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  kill(-pid_, SIGKILL);  // what it left behind
  pid_ = -1;
  return true;
}

void Child::end(const std::filesystem::path& mark) {
  if (pid_ < 0) return;
  const pid_t group = pid_;
  kill(-group, SIGTERM);
  for (int i = 0; i < 100 && !ended(); ++i) usleep(20'000);
  kill(-group, SIGKILL);
  kill_all_of(mark);
  while (!ended()) usleep(5'000);
}

double Child::seconds() const {
  const auto until = pid_ < 0 ? ended_ : std::chrono::steady_clock::now();
  return std::chrono::duration<double>(until - started_).count();
}

}  // namespace devtrace::fix
