// devtrace place: the same program on other devices, with other maps and other values of its own, in rehearsals one
// after the other; and the cheapest of them that fits.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/launch/rehearse_options.h"
#include "cli/place/measure.h"
#include "cli/place/text.h"
#include "cli/place/tries.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "fix/trials/workspace.h"
#include "process/supervise.h"
#include "simulate/settings/gpu_models.h"
#include "simulate/settings/option_parsing.h"

namespace devtrace::cli {
namespace {

// Exit codes, besides kBadUsage.
constexpr int kFits = 0, kNoneFits = 1;

struct PlaceOptions : RehearseOptions {
  std::vector<std::string> tries;
  double timeout = 600;
  unsigned tokens = 0;
  std::string format = "text";
};

std::string value_of(const place::Values& values, const char* name, const std::string& otherwise) {
  const auto at = values.find(name);
  return at == values.end() ? otherwise : at->second;
}

size_t memory_of(const std::string& gpu_model, const std::string& memory) {
  if (!memory.empty()) return *simulate::read_memory(memory.c_str());
  return simulate::find_gpu_model(gpu_model.empty() ? "h100" : gpu_model.c_str())->memory;
}

// `map`: in the place of the one that the values name.
place::Measured measure(const PlaceOptions& said, const std::vector<std::string>& program, const place::Values& values,
                        const std::filesystem::path& folder, std::string map) {
  PlaceOptions options = said;
  const std::string ranks = value_of(values, "tensor-parallel", "");
  options.gpus = std::stoi(ranks.empty() ? value_of(values, "gpus", std::to_string(said.gpus)) : ranks);
  options.gpu_model = value_of(values, "gpu-model", said.gpu_model);
  options.memory = value_of(values, "memory", said.memory);
  if (options.values.empty() && !options.no_values) options.values = "small";
  Launch launch = options.on_simulated_devices(options.launch(place::filled(program, values)));
  if (map.empty()) map = value_of(values, "device-map", "");
  if (!map.empty()) launch.environment.emplace_back("DEVTRACE_SIM_DEVICE_MAP", map);
  if (!ranks.empty() && ranks != "1") launch.environment.emplace_back("DEVTRACE_SIM_TENSOR_PARALLEL", "1");
  place::Measured measured = place::run({launch.program, environment_of(launch)}, folder, options.timeout);
  measured.values = values;
  measured.gpus = options.gpus;
  measured.memory = memory_of(options.gpu_model, options.memory);
  // Devices that nothing was placed on have no peak.
  std::erase_if(measured.peaks, [&](const auto& peak) { return peak.first >= options.gpus; });
  return measured;
}

// What each device needs besides weights, as accelerate's map has it; on devices where it surely fits.
place::Measured measure_before(const PlaceOptions& said, const std::vector<std::string>& program,
                               const place::Values& values, const std::filesystem::path& folder) {
  constexpr size_t kMost = 1ull << 40;  // as --memory allows
  const size_t memory =
      memory_of(value_of(values, "gpu-model", said.gpu_model), value_of(values, "memory", said.memory));
  place::Values roomy = values;
  roomy["memory"] = fmt::format("{}MiB", std::min(kMost, 4 * memory) >> 20);
  return measure(said, program, roomy, folder, "balanced");
}

int place_program(const CLI::App& app, const AfterDashes& after_dashes, const PlaceOptions& options) {
  const std::vector<std::string> program = options.launch(app, after_dashes).program;
  const std::vector<place::Values> all = place::combinations(place::read_variations(options.tries), program);
  process::supervise(fix::kGuard);
  const std::unique_ptr<const void, void (*)(const void*)> leftovers(&options,
                                                                     [](const void*) { process::end_descendants(); });
  std::vector<place::Measured> measured;
  try {
    const fix::Workspace workspace;
    for (const place::Values& values : all) {
      if (options.format == "text" && all.size() > 1)
        fmt::print(stderr, "devtrace place: try {} of {}\n", measured.size() + 1, all.size());
      const auto folder = [&](const char* what) { return workspace.make(fmt::format("{}-{}", what, measured.size())); };
      std::string map;
      if (value_of(values, "device-map", "") == "measured") {
        const place::Measured before = measure_before(options, program, values, folder("before"));
        map = place::balanced_map(before);
        if (map.empty()) map = "balanced";
      }
      measured.push_back(measure(options, program, values, folder("try"), map));
    }
  } catch (const process::CannotStart& error) {
    throw Failure(kBadUsage, error.what());
  }
  fmt::print("{}", options.format == "json" ? place::as_json(measured, options.tokens)
                                            : place::as_text(measured, options.tokens));
  return place::cheapest(measured).empty() ? kNoneFits : kFits;
}

}  // namespace

Action declare_place(CLI::App& app) {
  auto options = std::make_shared<PlaceOptions>();
  options->declare_devices(app);
  app.add_option("--try", options->tries,
                 "what to vary, once or more: gpus=1,2,4, gpu-model=a100,h100, memory=24GiB,40GiB, "
                 "device-map=auto,balanced,balanced_low_0,sequential,measured, tensor-parallel=1,2,4, or a name that "
                 "stands as {NAME} in the program's "
                 "words; each combination is tried")
      ->type_name("NAME=VALUE,...")
      ->allow_extra_args(false);
  app.add_option("--tokens", options->tokens, "how many tokens (or steps) the program makes: bytes are told for one")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--timeout", options->timeout, "seconds for one try; then it is ended [600]")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--format", options->format, "text or json [text]")->check(CLI::IsMember({"text", "json"}));
  options->declare(app);
  app.footer(
      "Each try is a rehearsal of the whole program, with --values small unless you say otherwise, one after the "
      "other. "
      "A device map is put in\n"
      "the place of the program's own where it calls from_pretrained(device_map=...), dispatch_model or "
      "load_checkpoint_and_dispatch; its files stay as\n"
      "they are. The cheapest is the one with the least memory of all devices, then the fewest devices, then the "
      "fewest "
      "bytes between them.\n"
      "\n"
      "Exit status: 0 when one fits, 1 when none does, 2 for bad usage.");
  return [options, &app](const AfterDashes& after_dashes) { return place_program(app, after_dashes, *options); };
}

}  // namespace devtrace::cli
