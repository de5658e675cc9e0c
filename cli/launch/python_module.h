// A module of the Python package beside the command, for what only Python's own libraries do.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::cli {

// `python -m devtrace.MODULE WORDS…` with what is written to it as its standard input. It tells on stderr what goes
// wrong, also that a package is missing. Throws Failure where there is no Python.
class PythonModule {
 public:
  PythonModule(const std::string& module, const std::vector<std::string>& words);
  ~PythonModule();
  PythonModule(const PythonModule&) = delete;
  PythonModule& operator=(const PythonModule&) = delete;

  // Throws Failure, without words of its own, where the module has ended.
  void write(std::string_view bytes);
  // … or into this file.
  std::string input() const;
  // Its exit status, when it has read all.
  int finish();

 private:
  pid_t process_ = -1;
  int input_ = -1;
  void (*pipe_handler_)(int) = nullptr;  // of SIGPIPE, before
};

}  // namespace devtrace::cli
