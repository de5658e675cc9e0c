// devtrace run: the program with libdevtrace.so in front.
#include <memory>

#include "cli/launch/installation.h"
#include "cli/launch/program_options.h"
#include "cli/subcommand.h"

namespace devtrace::cli {

Action declare_run(CLI::App& app) {
  auto options = std::make_shared<ProgramOptions>();
  options->declare(app);
  app.footer(
      "A finding is told on stderr, and written to the log and to an HTML report beside it, before the program sees "
      "the error. Child processes are\n"
      "watched as well.\n"
      "\n"
      "Exit status: the program's own; 128 + N when signal N ended it; the value of --error-exitcode when there were "
      "findings; 127 when there is no\n"
      "such program, 126 when it cannot be run, 2 for bad usage.\n"
      "\n"
      "Environment: DEVTRACE_OPTIONS is kept and comes before the options given here; DEVTRACE_LIBRARY names another "
      "libdevtrace.so.");
  return [options, &app](const AfterDashes& after_dashes) {
    Launch what = options->launch(app, after_dashes);
    what.preload = {find_library()};
    return launch(what);
  };
}

}  // namespace devtrace::cli
