// What `run`, `rehearse` and `attach` have in common: what the library is told, and the program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/launch/launch.h"
#include "cli/subcommand.h"

namespace devtrace::cli {

// What the library is told, whoever starts the program.
struct LibraryOptions {
  std::vector<std::string> options;  // key=value, as in DEVTRACE_OPTIONS
  std::string log_path, suppressions;
  bool no_html = false, no_text = false;

  void declare_library(CLI::App& app);
  // As DEVTRACE_OPTIONS has them, those of this process's environment first. Throws Failure for what is none.
  std::string text() const;
};

struct ProgramOptions : LibraryOptions {
  int error_exitcode = 0;

  void declare(CLI::App& app);
  // The launch that they mean, without any preloaded library. Throws Failure for a program or an option that is none.
  Launch launch(const CLI::App& app, const AfterDashes& after_dashes) const;
  // The same for a program that is known.
  Launch launch(std::vector<std::string> program) const;
};

}  // namespace devtrace::cli
