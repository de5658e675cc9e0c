// A program started in a process of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace devtrace::process {

struct Program {
  std::vector<std::string> words;  // as for execvp
  std::map<std::string, std::string> environment;
};

// This process's environment. name: value; of a name that stands twice the first. What has no '=' is left out.
std::map<std::string, std::string> own_environment();

struct CannotStart : std::runtime_error {
  CannotStart(const std::string& what, int error) : std::runtime_error(what), error(error) {}
  int error;  // why the program cannot be run; 0: no process could be made
};

// Returns when it runs. `prepare` is called in the new process before it is the program's: there it may do what a
// signal's handler may, and returns false, with errno, where that failed. Throws CannotStart.
pid_t start(const Program& program, const std::function<bool()>& prepare);

}  // namespace devtrace::process
