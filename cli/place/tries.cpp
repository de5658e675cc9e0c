#include "cli/place/tries.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "cli/subcommand.h"
#include "common/format.h"
#include "simulate/settings/gpu_models.h"
#include "simulate/settings/option_parsing.h"

namespace devtrace::cli::place {
namespace {

constexpr std::array<std::string_view, 5> kMaps = {"auto", "balanced", "balanced_low_0", "sequential", "measured"};

bool is_number_of_devices(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= simulate::kMaxDevices;
}

// Why there is no such value; empty: there is.
std::string wrong_value(const std::string& name, const std::string& value) {
  if (value.empty()) return "a value is missing";
  if ((name == "gpus" || name == "tensor-parallel") && !is_number_of_devices(value))
    return fmt::format("'{}' is no number from 1 to 16", value);
  if (name == "gpu-model" && !simulate::find_gpu_model(value.c_str()))
    return fmt::format("'{}' is no GPU model devtrace knows; it knows {}", value, simulate::gpu_model_keys());
  if (name == "memory" && !simulate::read_memory(value.c_str()))
    return fmt::format("'{}' is no size from 2MiB to 1TiB", value);
  if (name == "device-map" && std::find(kMaps.begin(), kMaps.end(), value) == kMaps.end())
    return fmt::format("'{}' is neither measured nor one of accelerate's: auto, balanced, balanced_low_0, sequential",
                       value);
  return {};
}

Variation read_variation(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0)
    throw Failure(kBadUsage, fmt::format("--try {}: write NAME=VALUE,VALUE like gpus=1,2,4", text));
  Variation variation{text.substr(0, equals), {}};
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    variation.values.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  for (const std::string& value : variation.values)
    if (const std::string why = wrong_value(variation.name, value); !why.empty())
      throw Failure(kBadUsage, fmt::format("--try {}: {}", text, why));
  return variation;
}

std::string place_of(const std::string& name) {
  return '{' + name + '}';
}

}  // namespace

bool is_ours(const std::string& name) {
  return name == "gpus" || name == "tensor-parallel" || name == "gpu-model" || name == "memory" || name == "device-map";
}

std::vector<Variation> read_variations(const std::vector<std::string>& texts) {
  std::vector<Variation> all;
  for (const std::string& text : texts) {
    Variation one = read_variation(text);
    if (std::any_of(all.begin(), all.end(), [&](const Variation& each) { return each.name == one.name; }))
      throw Failure(kBadUsage, fmt::format("--try {}: {} is said twice", text, one.name));
    all.push_back(std::move(one));
  }
  const auto has = [&](std::string_view name) {
    return std::any_of(all.begin(), all.end(), [&](const Variation& each) { return each.name == name; });
  };
  for (const char* other : {"gpus", "device-map"})
    if (has("tensor-parallel") && has(other))
      throw Failure(kBadUsage, fmt::format("--try tensor-parallel and --try {} exclude each other: each rank has a "
                                           "device of its own",
                                           other));
  return all;
}

std::vector<Values> combinations(const std::vector<Variation>& variations, const std::vector<std::string>& program) {
  std::vector<Values> all = {{}};
  for (const Variation& variation : variations) {
    const std::string place = place_of(variation.name);
    const bool stands = std::any_of(program.begin(), program.end(),
                                    [&](const std::string& word) { return word.find(place) != word.npos; });
    if (!is_ours(variation.name) && !stands)
      throw Failure(kBadUsage, fmt::format("--try {}=…: no word of the program has {} in it", variation.name, place));
    std::vector<Values> more;
    for (const Values& before : all)
      for (const std::string& value : variation.values) {
        more.push_back(before);
        more.back()[variation.name] = value;
      }
    all = std::move(more);
    if (all.size() > kMostTries)
      throw Failure(kBadUsage, fmt::format("that is more than {} tries: say fewer values", kMostTries));
  }
  return all;
}

std::vector<std::string> filled(const std::vector<std::string>& program, const Values& values) {
  std::vector<std::string> words = program;
  for (std::string& word : words)
    for (const auto& [name, value] : values) {
      const std::string place = place_of(name);
      for (size_t at = 0; (at = word.find(place, at)) != word.npos; at += value.size())
        word.replace(at, place.size(), value);
    }
  const auto ranks = values.find("tensor-parallel");
  if (ranks == values.end() || ranks->second == "1") return words;
  const std::string program_name = words.front().substr(words.front().rfind('/') + 1);
  if (!program_name.starts_with("python"))
    throw Failure(kBadUsage, fmt::format("--try tensor-parallel starts a Python program by torchrun, and {} is none",
                                         words.front()));
  words.insert(words.begin() + 1, {"-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks->second});
  return words;
}

}  // namespace devtrace::cli::place
