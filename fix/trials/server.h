// A process that has imported what the program imports, and forks for each run: importing PyTorch is most of a short
// run.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "fix/trials/child.h"

namespace devtrace::fix {

class Server {
 public:
  // The file that such a process can run in a fork: that of `python [options] FILE [arguments]`.
  static std::optional<std::filesystem::path> main_file(const ProgramToRun& program);
  // `program`: as a run starts it, with serve.py in its main file's place. Its output, and a copy of that file, go to
  // `folder`. Throws as Child does.
  Server(ProgramToRun program, const std::filesystem::path& main, const std::filesystem::path& folder);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Nothing: not yet. False: it will not be.
  std::optional<bool> ready();
  // A process that runs the program with that environment, a child of this process. Nothing: it cannot be had.
  std::optional<pid_t> fork(const ProgramToRun& program, const std::filesystem::path& output);

 private:
  // A line of the server's; nothing: none came in time. Empty: it has ended.
  std::optional<std::string> answer(double seconds);

  int socket_ = -1;
  std::map<std::string, std::string> environment_;
  std::string heard_;
  std::optional<bool> ready_;
  std::optional<Child> child_;
};

}  // namespace devtrace::fix
