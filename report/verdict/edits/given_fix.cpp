// What a model is given from elsewhere, moved in the line that calls it or where it was put.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {

// Of the module that the line calls and that has this state: `block` of `block.norm.weight` in `block(x)`.
static std::string device_of_called(const Frame& line, size_t frame, const Operand& state) {
  for (const std::string_view module : modules_in(frame, state))
    if (line.source.find(fmt::format("{}(", module)) != line.source.npos)
      return fmt::format("next({}.parameters()).device", module);
  return {};
}

std::optional<Fix> redirect_where_it_runs(const Evidence& evidence, const Operand& it, const Operand& other) {
  for (size_t frame = 0; it.moved.line() && frame < evidence.stack.size(); ++frame) {
    const Frame& here = evidence.stack[frame];
    if (!here.project || !here.same_line(*it.moved.line())) continue;
    std::string device = other.is_state() ? device_of_called(here, frame, other) : std::string();
    if (device.empty()) device = device_expression(evidence, frame, other);
    if (device.starts_with('"')) return std::nullopt;
    auto code = redirect_move(here.source, device);
    return code ? std::optional(repair_of(here, std::move(*code))) : std::nullopt;
  }
  return std::nullopt;
}

// The line that put the input on its device, going to the model's instead, which is the `wanted` one. Only where
// `device` can be said there too: in the same function, further up, in words that stand for the same thing on both
// lines.
static std::optional<Fix> move_elsewhere(const Evidence& evidence, size_t frame, const Operand& input,
                                         const std::string& device, std::string_view wanted) {
  const Frame* moved = input.moved.line();
  const Frame& here = evidence.stack[frame];
  if (!moved || !moved->project || moved->file != here.file || moved->line >= here.line) return std::nullopt;
  const bool same_function =
      moved->function == here.function || (moved->function.starts_with(here.function) &&
                                           moved->function.substr(here.function.size()).starts_with(".<locals>.<"));
  const bool anonymous =
      moved->function.starts_with("<") && moved->function != "<module>";  // <dictcomp> before 3.11 tells no owner
  if (!same_function && !anonymous) return std::nullopt;
  // `self.model.device`, which a model of transformers has, says it better than its first parameter.
  constexpr std::string_view kDevice = ".device";
  const std::string first = fmt::format("next({}.parameters()).device",
                                        device.substr(0, device.size() - std::min(device.size(), kDevice.size())));
  for (const finding::Step& step : input.lineage)
    if (const auto words = expression_of(step, wanted); step.what == "moved" && same_function && !words.empty())
      if (auto line = redirect_move(moved->source, words == first ? std::string_view(device) : words))
        return repair_of(*moved, std::move(*line));
  if (!device.starts_with("self.") && !device.starts_with("next(self.") && !device.starts_with("\""))
    return std::nullopt;
  auto line = redirect_move(moved->source, device);
  if (!line) return std::nullopt;
  return repair_of(*moved, std::move(*line));
}

std::optional<Fix> move_at_call(const Evidence& evidence, size_t caller, const Operand& input, const Operand& state) {
  std::string device = device_expression(evidence, caller, state);
  // In front of a call that brings the model to its device itself, that says where it has been.
  if (evidence.happened_inside_model(state.moved)) device = expression_of(evidence, caller, state.device);
  if (device.empty()) return std::nullopt;
  // Of a model that is spread over devices the caller does not know which part will meet it.
  if (state.root_devices.size() > 1 && device.starts_with('"')) return std::nullopt;
  if (auto fix = move_elsewhere(evidence, caller, input, device, state.device)) return fix;
  return repairing(move_with_siblings(evidence, caller, input, device));
}

// Does all that runs of the model lie on that device?
static bool runs_whole_on(const Evidence& evidence, std::string_view device) {
  const auto& running = evidence.refusal.modules;
  return std::all_of(running.begin(), running.end(), [&](const finding::RunningModule& each) {
    return each.devices.size() == 1 && each.devices[0] == device && each.hook.empty();
  });
}

const Operand& named_in(const Operand& it, size_t frame) {
  const Operand& from = it.origin();
  const bool alone = from.name_in(frame).empty() && !from.expression.empty() && from.computed_from.size() == 1;
  return alone && from.computed_from[0].device == it.device ? from.computed_from[0] : from;
}

std::optional<Fix> move_where_given(const Evidence& evidence) {
  const auto caller = evidence.caller_of_model(), own = innermost_project(evidence.stack);
  if (!caller || !own || *own >= *caller || !evidence.stack[*caller].project) return std::nullopt;
  const auto given = [&](const Operand& it) {
    const Operand& from = named_in(it, *caller);
    return !from.is_of_state() && from.role != "attribute" && !from.hidden() && !from.name_in(*caller).empty() &&
           !evidence.made_inside_model(from);
  };
  const auto pair = evidence.pair(given, [&](const Operand& other) {
    return other.is_state() && other.is_of_whole_model() && !other.on_cpu() && runs_whole_on(evidence, other.device);
  });
  if (!pair) return std::nullopt;
  // The call gives what an expression of the failing line was computed from.
  Evidence outside = evidence;
  const Operand& from = named_in(*pair.it, *caller);
  outside.operands[static_cast<size_t>(pair.it - evidence.operands.data())] = from;
  return move_at_call(outside, *caller, from, *pair.other);
}

}  // namespace devtrace::report::verdict
