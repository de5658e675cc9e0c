// What `run` and `rehearse` have in common: the program, and what the library in it is told.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "report/command/launch.h"
#include "report/command/subcommand.h"

namespace devtrace::report::command {

struct ProgramOptions {
  std::vector<std::string> options;  // key=value, as in DEVTRACE_OPTIONS
  std::string log_path, suppressions;
  bool no_html = false, no_text = false;
  int error_exitcode = 0;

  void declare(CLI::App& app);
  // The launch that they mean, without any preloaded library. Throws Failure for a program or an option that is none.
  Launch launch(const CLI::App& app, const AfterDashes& after_dashes) const;
  // The same for a program that is known.
  Launch launch(std::vector<std::string> program) const;

 private:
  std::string library_options() const;
};

}  // namespace devtrace::report::command
