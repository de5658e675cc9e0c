#include "fix/trials/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "fix/trials/workspace.h"
#include "report/base/format.h"

namespace devtrace::fix {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Child::Child(const ProgramToRun& program, const std::filesystem::path& output) {
  // Everything the child needs is made before the fork.
  std::vector<std::string> words = program.words, settings;
  for (const auto& [key, value] : program.environment) settings.push_back(key + '=' + value);
  const auto argv = pointers(words), envp = pointers(settings);
  const std::string folder = program.folder.string(), file = output.string();
  int failure[2];  // closed by a successful exec, else holds its errno
  if (pipe2(failure, O_CLOEXEC) != 0) throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
  started_ = std::chrono::steady_clock::now();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(fmt::format("no new process: {}", std::strerror(errno)));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int in = open("/dev/null", O_RDONLY), out = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    int error = 0;
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 ||
        (!folder.empty() && chdir(folder.c_str()) != 0)) {
      error = errno;
    } else {
      execvpe(argv[0], argv.data(), envp.data());
      error = errno;
    }
    [[maybe_unused]] const ssize_t written = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  setpgid(pid_, pid_);
  close(failure[1]);
  int error = 0;
  ssize_t size;
  while ((size = read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(failure[0]);
  if (size != sizeof error) return;
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  throw std::runtime_error(fmt::format("cannot run '{}': {}", program.words[0], std::strerror(error)));
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
