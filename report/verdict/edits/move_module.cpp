// A module that nobody has moved, moved where the program calls it, `self.critic.to(obs.device)(obs)`, or where the
// program constructed it.
#include <algorithm>
#include <vector>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

// What that frame names of all that is on the device, and of what it was computed from.
template <typename Visit>
void each_named_there(const Operand& it, std::string_view device, size_t frame, const Visit& visit) {
  if (it.device == device && is_reference(it.name_in(frame))) visit(it);
  for (const Operand& source : it.computed_from) each_named_there(source, device, frame, visit);
  for (const Operand& sibling : it.siblings)
    if (sibling.device == device && is_reference(sibling.name_in(frame))) visit(sibling);
}

// `module(x)`, or `module.update(x)`: with `.to(device)` behind the module.
std::optional<std::string> moved_in_call(std::string_view source, std::string_view callee, std::string_view module,
                                         std::string_view device) {
  if (device.empty() || device.front() == '"' || device.find(module) != device.npos) return std::nullopt;
  return call_instead(source, callee, fmt::format("{}.to({}){}", module, device, callee.substr(module.size())), "");
}

// Of `self.head.0.weight` the module that the line calls, the outermost.
std::optional<Fix> move_named(const Evidence& evidence, size_t frame, const Operand& state, const Operand& other) {
  const Frame& line = evidence.stack[frame];
  const std::string device = device_expression(evidence, frame, other);
  for (const std::string_view module : modules_in(frame, state))
    if (auto code = moved_in_call(line.source, module, module, device)) return line_fix(line, std::move(*code));
  return std::nullopt;
}

// … `layer` of `added = layer(x)`, which nothing but the line calls so.
std::optional<Fix> move_called_alone(const Evidence& evidence, size_t frame, const Operand& other) {
  const Frame& line = evidence.stack[frame];
  const std::string module = called_in_value(line.source);
  const bool calls = frame > 0 && evidence.stack[frame - 1].function.ends_with("_call_impl");
  if (!calls || !is_reference(module)) return std::nullopt;
  auto code = moved_in_call(line.source, module, module, device_expression(evidence, frame, other));
  return code ? std::optional(line_fix(line, std::move(*code))) : std::nullopt;
}

bool bound_by(const Holder& holder, const Frame& line) {
  return holder.bound.file == line.file && holder.bound.line == line.line;
}

// The state that it is, or a view of; null: neither.
const Operand* state_of(const Operand& it) {
  if (it.is_state()) return &it;
  return it.computed_from.size() == 1 && it.computed_from[0].is_state() ? &it.computed_from[0] : nullptr;
}

// Is it an attribute of that module itself, which a move of the module reaches though nothing is registered?
bool is_attribute_of(const Operand& it, const finding::RunningModule& module) {
  return module.devices.empty() && it.role == "attribute" && it.name_in(module.frame).starts_with("self.");
}

}  // namespace

std::optional<size_t> caller_of(const Evidence& evidence, const finding::RunningModule& module) {
  for (size_t frame = module.frame + 1; frame < evidence.stack.size(); ++frame)
    if (evidence.stack[frame].project) return frame;
  return std::nullopt;
}

std::optional<Fix> move_called(const Evidence& evidence, size_t frame, const Operand& other, std::string_view only) {
  const Frame& line = evidence.stack[frame];
  const bool is_call = frame > 0 && evidence.stack[frame - 1].function.ends_with("_call_impl");
  std::optional<Fix> fix;
  each_named_there(other, other.device, frame, [&](const Operand& given) {
    const std::string_view name = given.name_in(frame);
    if (fix) return;
    const auto callee = callee_with(line.source, name);
    if (!callee) return;
    const std::string_view module = is_call ? *callee : std::string_view(*callee).substr(0, callee->rfind('.'));
    if (!is_reference(module) || (!only.empty() && module != only)) return;
    if (auto code = moved_in_call(line.source, *callee, module, fmt::format("{}.device", name)))
      fix = line_fix(line, std::move(*code));
  });
  return fix;
}

std::optional<Fix> move_model_at(const Evidence& evidence, size_t frame, const Operand& state, const Operand& other) {
  const Frame& line = evidence.stack[frame];
  const std::string_view model = module_in(frame, state);
  const std::string_view device = expression_of(evidence, frame, other.device);
  if (model.empty() || !line.project) return std::nullopt;
  auto code = moved_in_call(line.source, model, model, device);
  return code ? std::optional(repair_of(line, std::move(*code))) : std::nullopt;
}

std::optional<Fix> move_where_called(const Evidence& evidence) {
  const auto caller = evidence.caller_of_model();
  const auto pair = evidence.pair(
      [](const Operand& it) { return it.is_state() && it.on_cpu() && it.root_devices.size() > 1 && it.hook.empty(); },
      [](const Operand& other) { return !other.on_cpu(); });
  return caller && pair ? move_model_at(evidence, *caller, *pair.it, *pair.other) : std::nullopt;
}

std::optional<Fix> move_part_where_called(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return it.on_cpu() && it.hook.empty(); },
                                  [](const Operand& other) { return !other.on_cpu() && !other.is_state(); });
  if (!pair) return std::nullopt;
  const auto& running = evidence.refusal.modules;
  for (auto module = running.rbegin(); module != running.rend(); ++module) {
    const bool whole = module->devices.size() == 1 && module->devices[0] == pair.it->device;
    const auto frame = caller_of(evidence, *module);
    if (!frame) continue;
    std::optional<Fix> fix;
    if (const Operand* const state = state_of(*pair.it); whole && state) {
      fix = move_named(evidence, *frame, *state, *pair.other);
      if (!fix) fix = move_called_alone(evidence, *frame, *pair.other);
    }
    if (is_attribute_of(*pair.it, *module)) fix = move_called(evidence, *frame, *pair.other, {});
    if (fix) return fix;
  }
  return std::nullopt;
}

std::optional<Fix> move_owner_where_constructed(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Frame* const line = it.created.line();
  if (!line || !line->project || it.moved.known() || !in_a_constructor(it.created.stack)) return std::nullopt;
  const auto constructed_there = [&](const Chain& chain) {
    const auto& holders = chain.holders;
    if (holders.empty() || !holders.back().is_module() || !holders.back().devices.empty()) return false;
    return holders.size() == 1 ? assigned_name(line->source) == holders[0].name
                               : bound_by(holders[holders.size() - 2], *line);
  };
  if (std::none_of(it.held_by.begin(), it.held_by.end(), constructed_there)) return std::nullopt;
  const std::string device = expression_or_number(evidence, *line, other.device);
  // What a library keeps for itself is no word for the program.
  const bool unfit = device.front() == '"' || device.find("._") != device.npos;
  auto code = unfit || says_device(line->source) ? std::nullopt : move_value(line->source, device);
  return code ? std::optional(repair_of(*line, std::move(*code))) : std::nullopt;
}

}  // namespace devtrace::report::verdict
