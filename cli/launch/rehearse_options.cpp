#include "cli/launch/rehearse_options.h"

#include <cstdlib>
#include <utility>

#include "cli/launch/installation.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "simulate/settings/gpu_models.h"
#include "simulate/settings/option_parsing.h"

namespace devtrace::cli {
namespace {

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

std::string seed(std::string& text) {
  if (simulate::read_seed(text.c_str())) return {};
  return fmt::format("'{}' is no whole number from 0 to {}", text, UINT64_MAX);
}

std::string which_values(std::string& text) {
  if (text != "python" && text != "0" && text != "auto" && simulate::read_values(text.c_str())) return {};
  return fmt::format("'{}' is neither all, small, small:SIZE like small:64MiB, nor none", text);
}

void check_values(const RehearseOptions& options) {
  const bool needs_values =
      options.keep_going || options.strict || options.kernels || options.poison || !options.kernel_checks.empty();
  if (needs_values && !options.computes())
    throw Failure(kBadUsage, "--values none excludes --keep-going, --strict, --kernels, --kernel-checks and --poison");
  if (options.weights == "header" && options.values == "all")
    throw Failure(kBadUsage, "--weights header excludes --values all: there are no weights to compute with");
  if (options.poison && (options.values.starts_with("small") || options.weights == "header"))
    throw Failure(kBadUsage, "--values small and --weights header exclude --poison: what they leave is zero");
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

}  // namespace

void RehearseOptions::declare_devices(CLI::App& app) {
  app.add_option("--gpus", gpus, "number of simulated devices, 1 to 16 [2]")->type_name("N")->check(CLI::Range(1, 16));
  app.add_option("--gpu-model,--part", gpu_model,
                 fmt::format("what they pretend to be: {} [h100]", simulate::gpu_model_keys()))
      ->type_name("NAME")
      ->transform(CLI::Validator(known_gpu_model, ""));
  app.add_option("--memory", memory, "memory of each, like 24GiB [the model's own]")
      ->type_name("SIZE")
      ->check(CLI::Validator(size_of_memory, ""));
  app.add_option("--peer", peer, "which devices can reach each other's memory: all, none, or pairs like 0-1,2-3 [all]")
      ->type_name("PAIRS")
      ->check(CLI::Validator(pairs_of_peers, ""));
  app.add_option("--cuda", cuda, "version of the simulated libraries, 12 or 13 [the program's own]")
      ->type_name("MAJOR")
      ->check(CLI::IsMember({12, 13}));
  CLI::Option* const which =
      app.add_option("--values", values,
                     "which results are computed: all; small: those of tensors below 16MiB (or "
                     "small:SIZE), and masks and indices, the rest takes no memory of the host, "
                     "for models larger than it; none [all, and small from where the host has no room "
                     "for all]");
  which->type_name("WHICH")->check(CLI::Validator(which_values, ""));
  app.add_flag("--no-values", no_values,
               "only record kernels; results are left as they lie in memory (for measuring costs)")
      ->excludes(which);
  app.add_option("--weights", weights,
                 "what files of safetensors give: all, or their header alone: weights have their shapes and are zero, "
                 "also where no more of the file was downloaded; with --values small [all]")
      ->type_name("all|header")
      ->check(CLI::IsMember({"all", "header"}));
  app.add_flag("--eager", eager, "switch torch.compile off: nothing is compiled, the operators run one by one");
}

void RehearseOptions::declare_hosts(CLI::App& app) {
  app.add_option(
         "--hosts", hosts,
         fmt::format("run the program on so many machines, 1 to {}, side by side: each with --gpus devices, a name, "
                     "and torchrun's --nnodes, --node-rank, --master-addr and --master-port in its environment [1]",
                     simulate::kMaxHosts))
      ->type_name("N")
      ->check(CLI::Range(1, simulate::kMaxHosts));
}

void RehearseOptions::declare_async(CLI::App& app) {
  app.add_option("--async", async,
                 "streams run behind the host, by a schedule that SEED decides and repeats: a missing synchronisation "
                 "gives wrong values, for some seeds")
      ->type_name("SEED")
      ->check(CLI::Validator(seed, ""));
}

void RehearseOptions::declare_keep_going(CLI::App& app) {
  app.add_flag("--keep-going", keep_going,
               "compute what PyTorch refuses for its devices as if its operands lay on one: a run shows all findings")
      ->excludes(app.get_option("--no-values"));
}

void RehearseOptions::declare_what_is_not_computed(CLI::App& app) {
  CLI::Option* const values_off = app.get_option("--no-values");
  app.add_flag("--strict", strict,
               fmt::format("end the program, with exit status {}, where the host first reads what was not computed",
                           simulate::kNotComputed))
      ->excludes(values_off);
  app.add_flag("--kernels", kernels,
               "compute kernels that NVIDIA's compilers have made as well: their licence has a clause on translating "
               "what they make, so you say so")
      ->excludes(values_off);
  app.add_option("--kernel-checks", kernel_checks,
                 "what is looked at in kernels that are computed: owner, whose memory each access is of; all, also "
                 "races in shared memory and reads of memory that nothing has written, which takes several times as "
                 "long [owner]")
      ->type_name("owner|all")
      ->check(CLI::IsMember({"owner", "all"}))
      ->excludes(values_off);
  app.add_flag("--poison", poison, "fill what is not computed with NaN (-1 in whole numbers)")->excludes(values_off);
}

Launch RehearseOptions::on_simulated_devices(Launch what) const {
  check_peers(*this);
  check_values(*this);
  const int version = cuda ? cuda : cuda_of_command(what.program);
  const SimulatedLibraries simulated = find_simulated_libraries(version);
  if (!no_trace) what.preload.push_back(find_library());
  what.preload.insert(what.preload.end(), simulated.preload.begin(), simulated.preload.end());
  what.libraries = {simulated.folder};
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) what.environment.emplace_back(key, value);
  };
  set("DEVTRACE_SIM_GPUS", std::to_string(gpus));
  set("DEVTRACE_SIM_PART", gpu_model);
  set("DEVTRACE_SIM_MEMORY", memory);
  set("DEVTRACE_SIM_PEER", peer);
  set("DEVTRACE_SIM_ASYNC", async);
  const bool header_only = weights == "header";
  const std::string computed = !computes()       ? "0"
                               : !values.empty() ? values
                               : header_only     ? "small"
                               : poison          ? "all"
                                                 : "";
  set("DEVTRACE_SIM_VALUES", computed);
  if (header_only) set("DEVTRACE_SIM_WEIGHTS", weights);
  what.computes = computes();
  if (keep_going) set("DEVTRACE_SIM_KEEP_GOING", "1");
  if (strict) set("DEVTRACE_SIM_STRICT", "1");
  if (poison) set("DEVTRACE_SIM_POISON", "1");
  if (kernels) set("DEVTRACE_SIM_KERNELS", "1");
  set("DEVTRACE_SIM_KERNEL_CHECKS", kernel_checks);
  // A compiled graph is computed as a whole.
  if (eager || computed.starts_with("small")) set("TORCHDYNAMO_DISABLE", "1");
  // JAX and TensorFlow would take most of each device's memory at their start, and the host has not that much. CuPy
  // asks its compiler for machine code, of which nothing can be computed.
  for (const auto& [key, value] : {std::pair{"XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
                                   {"TF_FORCE_GPU_ALLOW_GROWTH", "true"},
                                   {"CUPY_COMPILE_WITH_PTX", "1"}})
    if (!std::getenv(key)) set(key, value);
  // Triton looks for libcuda.so.1 where the linker does, and would link against a real one.
  set("TRITON_LIBCUDA_PATH", simulated.folder.string());
  return what;
}

}  // namespace devtrace::cli
