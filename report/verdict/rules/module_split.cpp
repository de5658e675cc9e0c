// Parameters of one model on several devices: a device map without hooks, a part left behind by .to(), or a model that
// was never moved.
#include "report/base/escaping.h"
#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {
namespace {

constexpr std::string_view kCategory = "module-split-or-hook-missing";

std::string of_model(const Operand& state) {
  return state.root_class.empty() ? "the model" : std::string(state.root_class);
}

// What accelerate's map of the model adds, when it does not say the same.
std::string by_the_map(const Operand& state) {
  const std::string_view entry = state.device_map;
  if (entry.empty()) return {};
  const size_t colon = entry.find(": ");
  if (colon == entry.npos) return fmt::format(" The model's hf_device_map does not name {}.", state.module_path);
  if (entry.substr(colon + 2) == state.device) return {};
  return fmt::format(" The model's hf_device_map has {} on {}: something moved {} afterwards.", entry.substr(0, colon),
                     entry.substr(colon + 2), state.module_path);
}

std::optional<Cause> two_parts(const Evidence& evidence) {
  const auto state = [](const Operand& operand) { return operand.is_state(); };
  const auto pair = evidence.pair(state, state);
  if (!pair || !evidence.caller_of_model()) return std::nullopt;  // or somebody compares two models
  return Cause{kCategory, pair.it->root_class == pair.other->root_class ? Confidence::high : Confidence::medium,
               fmt::format("Two parts of {} that work together are on different devices: {} and {}.",
                           of_model(*pair.it), with_place(*pair.it), with_place(*pair.other)) +
                   by_the_map(*pair.it) + by_the_map(*pair.other),
               std::nullopt};
}

std::optional<Cause> passed_between_parts(const Evidence& evidence) {
  const auto pair = evidence.pair([&](const Operand& it) { return !it.is_state() && evidence.made_inside_model(it); },
                                  [](const Operand& other) { return other.is_of_state(); });
  if (!pair) return std::nullopt;
  if (pair.other->on_cpu()) {
    return Cause{kCategory, Confidence::high,
                 fmt::format("{} was computed by {} on {}, and {} of the same model was left on the CPU.",
                             pair.it->name, of_model(*pair.other), pair.it->device, with_place(*pair.other)) +
                     by_the_map(*pair.other),
                 std::nullopt};
  }
  const std::string hook = pair.other->hook.empty() ? "and nothing moves what passes between its parts"
                                                    : fmt::format("and {} did not move it", pair.other->hook);
  return Cause{kCategory, Confidence::high,
               fmt::format("{} was computed inside {} on {} and meets {}: the model is spread over devices, {}.",
                           pair.it->name, of_model(*pair.other), pair.it->device, with_place(*pair.other), hook) +
                   by_the_map(*pair.other),
               move_where_named(evidence, *pair.it, *pair.other)};
}

// Two results of the model's own layers, and nobody moved either: the layers are on different devices.
std::optional<Cause> computed_apart(const Evidence& evidence) {
  const auto of_a_layer = [&](const Operand& it) {
    return !it.is_of_state() && !it.moved.known && !it.on_cpu() && evidence.made_inside_model(it) &&
           it.created.stack.front().file.find("/torch/nn/") != std::string_view::npos;
  };
  const auto pair = evidence.pair(of_a_layer, of_a_layer);
  if (!pair) return std::nullopt;
  return Cause{kCategory, Confidence::medium,
               fmt::format("{} and {} were computed by parts of one model that are on different devices, and nothing "
                           "moves what passes between them.",
                           with_place(*pair.it), with_place(*pair.other)),
               move_where_named(evidence, *pair.it, *pair.other)};
}

// The input is on a GPU and what it meets first is on the CPU: the model was not moved, or this part of it.
std::optional<Cause> left_on_cpu(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_state() && !it.on_cpu(); },
                                  [](const Operand& other) { return other.is_state() && other.on_cpu(); });
  const auto caller = evidence.caller_of_model();
  if (!pair || !caller) return std::nullopt;
  Cause cause{kCategory, Confidence::medium,
              fmt::format("{} came in on {}, and {} is on the CPU: {} or this part of it was never moved.",
                          with_place(*pair.it), pair.it->device, pair.other->name, of_model(*pair.other)) +
                  by_the_map(*pair.other),
              std::nullopt};
  const Frame& here = evidence.stack[*caller];
  const std::string_view name = pair.it->name_in(*caller);
  auto callee = callee_of(here.source, name);
  if (!callee) callee = callee_of(here.source, name.substr(0, name.find('[')));
  if (callee && here.project && here.source.find('\n') == here.source.npos) {
    cause.fix = Fix{fmt::format("{}.to(\"{}\")\n{}", *callee, pair.it->device, dedented(here.source)),
                    std::string(here.file), here.line};
  }
  return cause;
}

}  // namespace

std::optional<Cause> module_split(const Evidence& evidence) {
  if (auto cause = two_parts(evidence)) return cause;
  if (auto cause = passed_between_parts(evidence)) return cause;
  if (auto cause = left_on_cpu(evidence)) return cause;
  return computed_apart(evidence);
}

}  // namespace devtrace::report::causes::rules
