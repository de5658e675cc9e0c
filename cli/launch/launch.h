// Running somebody's program with our libraries in front, as if we were not there: its terminal, its signals, its exit
// code.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace devtrace::cli {

struct Launch {
  std::vector<std::string> program;              // as for execvp
  std::vector<std::filesystem::path> preload;    // in front of what LD_PRELOAD holds
  std::vector<std::filesystem::path> libraries;  // in front of what LD_LIBRARY_PATH holds
  std::vector<std::pair<std::string, std::string>> environment;
  bool computes = false;   // a rehearsal's values, and what is not computed is listed
  int error_exitcode = 0;  // for findings in any process of the tree; 0: the program's own code stands
};

// The environment that it gives to the program. Throws Failure for a path that the dynamic linker cannot be told.
std::map<std::string, std::string> environment_of(const Launch& launch);

// Runs it and waits. Returns the program's exit code, 128 + signal when it was killed, or error_exitcode when there
// were findings. Throws Failure with code 127 when there is no such program, 126 when it cannot be run.
int launch(const Launch& launch);

}  // namespace devtrace::cli
