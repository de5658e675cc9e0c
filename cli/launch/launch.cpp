#include "cli/launch/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/launch/job_page.h"
#include "cli/launch/not_computed.h"
#include "cli/launch/temporary_file.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/rank_table.h"
#include "process/start.h"

namespace devtrace::cli {
namespace {

// Lists that the dynamic linker splits: it knows no way to quote.
std::string in_front(const std::vector<std::filesystem::path>& paths, std::string_view separators,
                     const char* variable) {
  std::string list;
  for (const auto& path : paths) {
    if (path.string().find_first_of(separators) != std::string::npos) {
      throw Failure(
          kBadUsage,
          fmt::format("{} cannot hold the path '{}' because of its blank or colon: install devtrace elsewhere",
                      variable, path.string()));
    }
    list += fmt::format("{}{}", list.empty() ? "" : ":", path.string());
  }
  if (const char* before = std::getenv(variable); before && *before)
    list += fmt::format("{}{}", list.empty() ? "" : ":", before);
  return list;
}

// Signals that somebody may send to us and means for the program. Not SIGKILL and SIGSTOP, which cannot be taken; not
// those of our own faults, which would return us to the faulty instruction for ever.
sigset_t signals_to_take() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGTTIN, SIGTTOU})
    sigdelset(&set, own);
  return set;
}

// The terminal sends its signals to the whole foreground group: the program has them already.
void pass_on(pid_t child, const siginfo_t& info) {
  const bool from_terminal = info.si_code == SI_KERNEL || info.si_code > 0;
  if (!from_terminal) kill(child, info.si_signo);
}

// Whether a shell waits for the program and has to be told that it was stopped. SIGSTOP by somebody else is followed by
// a SIGCONT for the program alone, which would not wake us.
bool is_for_the_shell(int signal) {
  if (signal != SIGSTOP) return true;
  const int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0) return false;
  const bool foreground = tcgetpgrp(terminal) == getpgrp();
  close(terminal);
  return foreground;
}

int wait_for(pid_t child, const sigset_t& taken) {
  for (;;) {
    int status = 0;
    const pid_t changed = waitpid(child, &status, WNOHANG | WUNTRACED);
    if (changed == child && WIFSTOPPED(status)) {
      if (is_for_the_shell(WSTOPSIG(status))) raise(SIGSTOP);  // sleep with it, so that the shell has its prompt back
      continue;
    }
    if (changed == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (changed < 0 && errno != EINTR)
      throw Failure(kBadUsage, fmt::format("waiting failed: {}", std::strerror(errno)));
    siginfo_t info{};
    const int signal = sigwaitinfo(&taken, &info);
    if (signal > 0 && signal != SIGCHLD) pass_on(child, info);
  }
}

}  // namespace

std::map<std::string, std::string> environment_of(const Launch& launch) {
  auto all = process::own_environment();
  if (!launch.preload.empty()) all["LD_PRELOAD"] = in_front(launch.preload, " :\t\n", "LD_PRELOAD");
  if (!launch.libraries.empty()) all["LD_LIBRARY_PATH"] = in_front(launch.libraries, ":;", "LD_LIBRARY_PATH");
  for (const auto& [key, value] : launch.environment) all[key] = value;
  return all;
}

int launch(const Launch& launch) {
  auto environment = environment_of(launch);
  // Where libdevtrace.so leaves one byte a finding, in whatever process of the tree. Gone when we are.
  std::optional<TemporaryFile> tally;
  if (launch.error_exitcode != 0) {
    environment["DEVTRACE_TALLY"] = tally.emplace("tally").path();
    if (tally->error() != 0)
      throw Failure(kBadUsage, fmt::format("--error-exitcode needs a temporary file: {}: {}", tally->path(),
                                           std::strerror(tally->error())));
  }

  std::optional<TemporaryFile> not_computed;
  if (launch.computes && not_computed.emplace("not-computed").error() == 0)
    environment["DEVTRACE_SIM_NOT_COMPUTED"] = not_computed->path();

  const OfferedRankTable ranks;  // as long as the program runs
  if (ranks.table()) environment[kRankTableVariable] = ranks.ticket();

  const sigset_t taken = signals_to_take();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &taken, &before);
  pid_t child;
  try {
    child =
        process::start({launch.program, environment}, [&] { return sigprocmask(SIG_SETMASK, &before, nullptr) == 0; });
  } catch (const process::CannotStart& problem) {
    throw Failure(problem.error == 0 ? kBadUsage : problem.error == ENOENT ? 127 : 126, problem.what());
  }
  const int code = wait_for(child, taken);
  if (not_computed && not_computed->error() == 0) list_not_computed(not_computed->path());
  if (ranks.table()) write_job_page(*ranks.table());
  return tally && tally->has_text() ? launch.error_exitcode : code;
}

}  // namespace devtrace::cli
