// What modules computed, or what is of their state, on both sides: they lie on different devices.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

const Operand& by_module(const Operand& it) {
  for (const Operand& source : it.computed_from)
    if ((it.given_by.devices.empty() || it.given_by.kind == "owner") && source.came_from_a_module())
      return by_module(source);
  return it;
}

std::string of_module(const Operand& it) {
  const auto& producer = by_module(it).given_by;
  return producer.devices.empty() ? "by a module" : fmt::format("by {}", producer.name);
}

std::string spread_words(const Operand& answer, const Operand& it, const Operand& other) {
  const auto& producer = answer.given_by;
  if (producer.kind == "owner")
    return fmt::format(
        "{} was given by {}, and the modules of the object whose method that is are spread over devices: "
        "it lies where a part of them is, and nothing brings it to {}.",
        with_place(it), producer.name, with_place(other));
  return fmt::format(
      "{} was computed by {}, which is spread over devices, and lies where a part of it is; "
      "nothing brings it to {}.",
      with_place(it), producer.name, with_place(other));
}

// A model on several devices has answered on one of them; what it meets lies on another one of them.
std::optional<Cause> answer_of_a_spread_model(const Evidence& evidence) {
  const auto spread = [](const Operand& it, std::string_view device) {
    const auto& devices = by_module(it).given_by.devices;
    return devices.size() >= 2 && std::find(devices.begin(), devices.end(), device) != devices.end();
  };
  for (const Operand& it : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      if (it.device == other.device || it.is_of_state() || !spread(it, other.device)) continue;
      return Cause{"module-split-or-hook-missing", Confidence::low, spread_words(by_module(it), it, other),
                   use_site(evidence)};
    }
  }
  return std::nullopt;
}

// The running module of which all parts lie on one GPU but for the one that gave it, which is on the CPU. Null: none.
const finding::RunningModule* left_a_part(const Evidence& evidence, const Operand& it, std::string_view device) {
  const auto& producer = by_module(it).given_by;
  const auto only_on = [](const finding::Part& part, std::string_view where) {
    return part.devices.size() == 1 && part.devices[0] == where;
  };
  const auto left = [&](const finding::RunningModule& each) {
    size_t there = 0, here = 0;
    for (const finding::Part& part : each.parts) {
      const bool gave = producer.name == fmt::format("self.{}", part.name);
      if (gave ? !only_on(part, "cpu") : !part.devices.empty() && !only_on(part, device)) return false;
      ++(gave ? here : there);
    }
    return here == 1 && there > 0;
  };
  const auto found = std::ranges::find_if(evidence.refusal.modules, left);
  return found == evidence.refusal.modules.end() ? nullptr : &*found;
}

// What a part gave that was left on the CPU, moved by the line that was given it and still runs.
std::optional<Cause> given_by_a_part_left(const Evidence& evidence) {
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands) {
      if (!it.on_cpu() || other.on_cpu() || it.is_of_state()) continue;
      const finding::RunningModule* const module = left_a_part(evidence, it, other.device);
      if (!module) continue;
      const Operand& given = by_module(it);
      Cause cause{"module-split-or-hook-missing", Confidence::medium,
                  fmt::format("{} was computed by {}, which lies on the CPU while all other parts of {} are on {}: "
                              "what moved these did not move it. It meets {}.",
                              with_place(it), given.given_by.name, module->type, other.device, with_place(other)),
                  std::nullopt};
      for (const finding::Step& step : given.lineage) {
        if (cause.fix || step.what == "made") continue;
        if (auto code = edit_of_step(evidence, step, given, expression_of(step, other.device)))
          cause.fix = line_fix(step.line, std::move(*code));
      }
      if (!cause.fix) cause.fix = use_site(evidence);
      return cause;
    }
  return std::nullopt;
}

// The tensor of a model's state that it was computed from; null: none that is known.
const Operand* state_under(const Operand& it) {
  if (it.is_state()) return &it;
  for (const Operand& source : it.computed_from)
    if (const Operand* const state = state_under(source)) return state;
  return nullptr;
}

// `total = total + f(parameter)` over a model that is spread: an earlier round of the line has made the sum, of a part
// that lies elsewhere.
std::optional<Cause> sum_over_parts(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own) return std::nullopt;
  const Frame& line = evidence.stack[*own];
  const auto sum = [&](const Operand& it) {
    const Frame* const made = it.created.line();
    return !it.is_of_state() && it.computed_from.empty() && !it.moved.known() && made && made->same_function(line) &&
           made->line == line.line && evidence.frame_that_made(it) == own && assigned_name(line.source) == it.name;
  };
  const auto pair = evidence.pair(sum, [](const Operand& other) { return state_under(other) != nullptr; });
  if (!pair) return std::nullopt;
  const Operand& state = *state_under(*pair.other);
  const auto& devices = state.root_devices;
  if (std::find(devices.begin(), devices.end(), pair.it->device) == devices.end()) return std::nullopt;
  Cause cause{
      "module-split-or-hook-missing", Confidence::medium,
      fmt::format("{} is the sum of what earlier rounds of {} have computed of parts of {}, which is spread over "
                  "devices; {} was computed of {} and lies where that is.",
                  with_place(*pair.it), at(&line), state.root_class, with_place(*pair.other), state.name),
      std::nullopt};
  // The sum may have begun as a number, which has no device: where the model begins is a place for every round.
  const std::string_view model = module_in(*own, state), name = pair.other->name;
  if (line.project && is_reference(model) && state.is_parameter && is_identifier(name))
    if (auto code = replace_read(line.source, name, fmt::format("{}.to(next({}.parameters()).device)", name, model)))
      cause.fix = repair_of(line, std::move(*code));
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

}  // namespace

std::optional<Cause> results_apart(const Evidence& evidence) {
  if (auto cause = sum_over_parts(evidence)) return cause;
  if (auto cause = answer_of_a_spread_model(evidence)) return cause;
  if (auto cause = given_by_a_part_left(evidence)) return cause;
  // Where nothing registered lies on the CPU no module has brought it there: it lies where what it was given does.
  const auto elsewhere = [&](const Operand& it) {
    return it.on_cpu() && it.given_by.devices.empty() && evidence.refusal.state_devices.is_known() &&
           !evidence.has_state_on("cpu");
  };
  const auto result = [&](const Operand& it) {
    return it.came_from_a_module() && !it.came_from_state() && !elsewhere(it);
  };
  const auto state = [](const Operand& it) { return it.came_from_state(); };
  const bool both = static_cast<bool>(evidence.pair(result, result));
  // What a model meets inside of itself may be its own, from an earlier call.
  if (!both && evidence.caller_of_model()) return std::nullopt;
  const auto pair = both ? evidence.pair(result, result) : evidence.pair(result, state);
  if (!pair) return std::nullopt;
  // Of one that an object has kept from before, and one of now, not where the modules lie is told: they may have moved.
  if (both && is_owned_by_an_object(evidence, *pair.it) != is_owned_by_an_object(evidence, *pair.other))
    return std::nullopt;
  return Cause{
      "module-split-or-hook-missing", Confidence::low,
      fmt::format("{} was computed {} and {} {}: they are on different devices, and nothing moves what they give.",
                  with_place(*pair.it), of_module(*pair.it), with_place(*pair.other),
                  both ? of_module(*pair.other) : "is a module's state, or was computed from it"),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
