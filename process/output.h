// What another program writes.
#pragma once

#include <string>

#include "process/start.h"

namespace devtrace::process {

struct Ended {
  bool started = false;
  int status = -1;     // as of waitpid
  std::string output;  // of a program that could not be started: why
};

// Runs a program with nothing to read, in `folder` (empty: here), and takes what it writes. One that writes nothing for
// `patience` milliseconds is killed. `errors`: its standard error is taken as well, else it is thrown away.
Ended output_of(const Program& program, const std::string& folder, int patience, bool errors);

}  // namespace devtrace::process
