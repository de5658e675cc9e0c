// devtrace rehearse: the program with simulated CUDA libraries under it, and libdevtrace.so in front.
#include <memory>

#include "cli/launch/hosts.h"
#include "cli/launch/rehearse_options.h"
#include "cli/subcommand.h"

namespace devtrace::cli {

Action declare_rehearse(CLI::App& app) {
  auto options = std::make_shared<RehearseOptions>();
  options->declare_devices(app);
  options->declare_hosts(app);
  options->declare_async(app);
  options->declare_keep_going(app);
  options->declare_what_is_not_computed(app);
  app.add_flag("--no-trace", options->no_trace, "simulated devices without libdevtrace.so: no finding is made");
  options->declare(app);
  app.footer(
      "Simulated CUDA libraries stand under the installed PyTorch, so PyTorch's own device checks run, on a machine "
      "without a GPU. Devices, memory,\n"
      "copies and checks are real, kernels are recorded, and the results of PyTorch's operators are computed on the "
      "CPU. What\n"
      "could not be computed is listed at exit. A GPU that the machine has is not used.\n"
      "\n"
      "With --strict the program ends with status 65 where it first reads what was not computed. Else exit status and "
      "environment: as for 'devtrace run'.");
  return [options, &app](const AfterDashes& after_dashes) {
    const Launch what = options->on_simulated_devices(options->launch(app, after_dashes));
    return options->hosts > 1 ? launch_on_hosts(what, options->hosts) : launch(what);
  };
}

}  // namespace devtrace::cli
