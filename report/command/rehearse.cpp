// devtrace rehearse: the program with simulated CUDA libraries under it, and libdevtrace.so in front.
#include <memory>

#include "report/base/format.h"
#include "report/command/installation.h"
#include "report/command/program_options.h"
#include "report/command/subcommand.h"
#include "report/command/torch_cuda.h"
#include "simulate/settings/gpu_models.h"
#include "simulate/settings/option_parsing.h"

namespace devtrace::command {
namespace {

struct RehearseOptions : ProgramOptions {
  int gpus = 2, cuda = 0;
  std::string gpu_model, memory, peer;
  bool no_values = false, no_trace = false, eager = false;
};

std::string known_gpu_model(std::string& name) {
  name = CLI::detail::to_lower(name);
  if (simulate::find_gpu_model(name.c_str())) return {};
  return fmt::format("'{}' is no GPU model devtrace knows; it knows {}", name, simulate::gpu_model_keys());
}

std::string size_of_memory(std::string& text) {
  if (simulate::read_memory(text.c_str())) return {};
  return fmt::format("'{}' is no size from 2MiB to 1TiB; write 24GiB, 800MiB or a number of bytes", text);
}

std::string pairs_of_peers(std::string& text) {
  if (simulate::read_peers(text.c_str())) return {};
  return fmt::format("'{}' is neither all, none nor pairs of different devices like 0-1,2-3", text);
}

// Pairs name devices that there are.
void check_peers(const RehearseOptions& options) {
  if (options.peer.empty() || options.peer == "all") return;
  const simulate::Peers peers = *simulate::read_peers(options.peer.c_str());
  for (size_t i = static_cast<size_t>(options.gpus); i < peers.size(); ++i)
    if (peers[i])
      throw Failure(kBadUsage, fmt::format("--peer {}: there is no device {}; --gpus {} gives 0 to {}", options.peer, i,
                                           options.gpus, options.gpus - 1));
}

Launch plan(const CLI::App& app, const AfterDashes& after_dashes, const RehearseOptions& options) {
  check_peers(options);
  Launch what = options.launch(app, after_dashes);
  const int cuda = options.cuda ? options.cuda : cuda_of_torch(what.program[0]);
  const SimulatedLibraries simulated = find_simulated_libraries(cuda);
  if (!options.no_trace) what.preload.push_back(find_library());
  what.preload.insert(what.preload.end(), simulated.preload.begin(), simulated.preload.end());
  what.libraries = {simulated.folder};
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) what.environment.emplace_back(key, value);
  };
  set("DEVTRACE_SIM_GPUS", std::to_string(options.gpus));
  set("DEVTRACE_SIM_PART", options.gpu_model);
  set("DEVTRACE_SIM_MEMORY", options.memory);
  set("DEVTRACE_SIM_PEER", options.peer);
  if (options.no_values) set("DEVTRACE_SIM_VALUES", "0");
  if (options.eager) set("TORCHDYNAMO_DISABLE", "1");
  // Triton looks for libcuda.so.1 where the linker does, and would link against a real one.
  set("TRITON_LIBCUDA_PATH", simulated.folder.string());
  return what;
}

}  // namespace

Action declare_rehearse(CLI::App& app) {
  auto options = std::make_shared<RehearseOptions>();
  app.add_option("--gpus", options->gpus, "number of simulated devices, 1 to 16 [2]")
      ->type_name("N")
      ->check(CLI::Range(1, 16));
  app.add_option("--gpu-model,--part", options->gpu_model,
                 fmt::format("what they pretend to be: {} [h100]", simulate::gpu_model_keys()))
      ->type_name("NAME")
      ->transform(CLI::Validator(known_gpu_model, ""));
  app.add_option("--memory", options->memory, "memory of each, like 24GiB [the model's own]")
      ->type_name("SIZE")
      ->check(CLI::Validator(size_of_memory, ""));
  app.add_option("--peer", options->peer,
                 "which devices can reach each other's memory: all, none, or pairs like 0-1,2-3 [all]")
      ->type_name("PAIRS")
      ->check(CLI::Validator(pairs_of_peers, ""));
  app.add_option("--cuda", options->cuda,
                 "version of the simulated libraries, 12 or 13 [that of the program's PyTorch]")
      ->type_name("MAJOR")
      ->check(CLI::IsMember({12, 13}));
  app.add_flag("--no-values", options->no_values,
               "only record kernels; results are left as they lie in memory (for measuring costs)");
  app.add_flag("--eager", options->eager,
               "switch torch.compile off: the kernels that it generates are recorded but not computed");
  app.add_flag("--no-trace", options->no_trace, "simulated devices without libdevtrace.so: no finding is made");
  options->declare(app);
  app.footer(
      "Simulated CUDA libraries stand under the installed PyTorch, so PyTorch's own device checks run, on a machine "
      "without a GPU. Devices, memory,\n"
      "copies and checks are real, kernels are recorded, and the results of PyTorch's operators are computed on the "
      "CPU. What\n"
      "could not be computed is listed at exit. A GPU that the machine has is not used.\n"
      "\n"
      "Exit status and environment: as for 'devtrace run'.");
  return [options, &app](const AfterDashes& after_dashes) { return launch(plan(app, after_dashes, *options)); };
}

}  // namespace devtrace::command
