#include "process/start.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/format.h"

namespace devtrace::process {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** each = environ; *each; ++each) {
    const std::string_view entry(*each);
    if (const size_t equals = entry.find('='); equals != entry.npos)
      all.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return all;
}

pid_t start(const Program& program, const std::function<bool()>& prepare) {
  // Everything the child needs is made before the fork.
  std::vector<std::string> words = program.words, settings;
  for (const auto& [key, value] : program.environment) settings.push_back(key + '=' + value);
  const auto argv = pointers(words), envp = pointers(settings);
  int failure[2];  // closed by a successful exec, else holds its errno
  if (pipe2(failure, O_CLOEXEC) != 0) throw CannotStart(fmt::format("no pipe: {}", std::strerror(errno)), 0);
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(failure[0]);
    close(failure[1]);
    throw CannotStart(fmt::format("no new process: {}", std::strerror(error)), 0);
  }
  if (child == 0) {
    if (prepare()) execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  close(failure[1]);
  int error = 0;
  ssize_t size;
  while ((size = read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(failure[0]);
  if (size != sizeof error) return child;
  waitpid(child, nullptr, 0);
  throw CannotStart(fmt::format("cannot run '{}': {}", program.words[0], std::strerror(error)), error);
}

}  // namespace devtrace::process
