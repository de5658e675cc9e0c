#include "process/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace devtrace::process {

Ended output_of(const Program& program, const std::string& folder, int patience, bool errors) {
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return {};
  Ended ended;
  try {
    const pid_t child = start(program, [&] {
      const int nothing = ::open("/dev/null", O_RDWR);
      return nothing >= 0 && ::dup2(nothing, 0) == 0 && ::dup2(output[1], 1) == 1 &&
             ::dup2(errors ? output[1] : nothing, 2) == 2 && (folder.empty() || ::chdir(folder.c_str()) == 0);
    });
    ended.started = true;
    ::close(output[1]);
    char part[4096];
    pollfd waiting{output[0], POLLIN, 0};
    bool over = false;
    while (!over && ::poll(&waiting, 1, patience) > 0) {
      const ssize_t size = ::read(output[0], part, sizeof part);
      over = size <= 0;
      if (size > 0) ended.output.append(part, static_cast<size_t>(size));
    }
    if (!over) ::kill(child, SIGKILL);
    ::waitpid(child, &ended.status, 0);
  } catch (const CannotStart& error) {
    ::close(output[1]);
    ended.output = error.what();
  }
  ::close(output[0]);
  return ended;
}

}  // namespace devtrace::process
