// What the simulated devices of `rehearse` and `fix` can be asked for.
#pragma once

#include <string>

#include "cli/launch/program_options.h"

namespace devtrace::cli {

struct RehearseOptions : ProgramOptions {
  int gpus = 2, hosts = 1, cuda = 0;
  std::string gpu_model, memory, peer, async, values, weights, kernel_checks;
  bool no_values = false, no_trace = false, eager = false, keep_going = false, strict = false, poison = false,
       kernels = false;

  // Whether any results are computed.
  bool computes() const { return !no_values && values != "none"; }

  // Adds those of the devices; those of ProgramOptions are not among them.
  void declare_devices(CLI::App& app);
  // Several machines: `rehearse` alone has it.
  void declare_hosts(CLI::App& app);
  // Streams that run behind the host: `rehearse` alone has it.
  void declare_async(CLI::App& app);
  // What happens after a refusal: `rehearse` alone has it.
  void declare_keep_going(CLI::App& app);
  // What happens where results are not computed: `rehearse` alone has these.
  void declare_what_is_not_computed(CLI::App& app);
  // That launch with the simulated libraries, and libdevtrace.so unless no_trace. Throws Failure for options that
  // contradict each other, and for libraries that are not there.
  Launch on_simulated_devices(Launch what) const;
};

}  // namespace devtrace::cli
