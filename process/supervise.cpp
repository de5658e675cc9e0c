#include "process/supervise.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>

#include "process/status.h"

namespace devtrace::process {
namespace {

// Waits for the child and hands signals on. Returns its exit code, or 128 + the signal's number.
int wait_for(pid_t child, const sigset_t& signals) {
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    siginfo_t signal{};
    if (sigwaitinfo(&signals, &signal) < 0 || signal.si_signo == SIGCHLD) continue;
    // The terminal sends its own to the whole group.
    if (signal.si_code != SI_KERNEL) kill(child, signal.si_signo);
  }
}

// A number that became another process's since it was listed is not killed: the descriptor is the process's that is
// looked at behind it.
void kill_if_below(pid_t pid, const std::set<pid_t>& above, std::string_view spared) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0 && errno == ESRCH) return;
  const auto status = status_of(pid);
  const bool found = status && above.contains(status->parent) && status->state != 'Z' && status->state != 'X' &&
                     (spared.empty() || status->name != spared);
  if (found && process >= 0) syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
  if (found && process < 0) kill(pid, SIGKILL);  // before Linux 5.3
  if (process >= 0) close(process);
}

}  // namespace

bool kill_descendants(std::string_view spared) {
  const auto all = descendants_of(getpid());
  std::set<pid_t> above(all.begin(), all.end());
  above.insert(getpid());
  for (const pid_t each : all) kill_if_below(each, above, spared);
  return !all.empty();
}

void end_descendants(std::string_view spared) {
  constexpr int kLooks = 1000, kBetween = 10'000;
  for (int look = 0; look < kLooks; ++look) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!kill_descendants(spared)) return;
    usleep(kBetween);
  }
}

void supervise(std::string_view spared) {
  std::fflush(nullptr);
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int each : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, each);
  sigprocmask(SIG_BLOCK, &signals, &before);
  // Both, for each of them may be killed: what is left behind comes to the one that is still there. Children from
  // before an exec (`server & exec devtrace fix …`) are the user's: then this one ends nothing.
  const bool alone = descendants_of(getpid()).empty();
  if (alone) prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) {  // it goes on here
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  if (child == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (getppid() != parent) _exit(128 + SIGTERM);
    return;
  }
  const int code = wait_for(child, signals);
  if (alone) end_descendants(spared);
  _exit(code);
}

}  // namespace devtrace::process
