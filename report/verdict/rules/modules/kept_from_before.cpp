// What somebody kept from before a move of the model: a tensor of it, or the device on which it lay.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

// Module.to() gives parameters and buffers new memory: a reference to the old one that somebody kept stays behind.
std::optional<Cause> kept_from_before(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_state() && !it.moved_away.name.empty(); },
                                  [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  // Several parameters may have been made by one line within one tick of the clock.
  const bool there = it.moved_away.device == pair.other->device;
  return Cause{
      "cached-state-elsewhere", there ? Confidence::high : Confidence::medium,
      fmt::format("{} is what {} was until that was moved to {}: moving a module gives it new memory, and what "
                  "was kept from before stays where it was. It meets {}.",
                  with_place(it), it.moved_away.name, it.moved_away.device, with_place(*pair.other)),
      move_where_named(evidence, it, *pair.other)};
}

namespace {

// The object that keeps the device keeps the module as well, which knows where it is now.
std::string module_beside(const finding::DeviceSource& kept, const Operand& state) {
  for (const Chain& chain : state.held_by) {
    for (size_t i = 0; i + 1 < chain.holders.size(); ++i) {
      const Holder &object = chain.holders[i], &module = chain.holders[i + 1];
      if (object.type != kept.type || object.is_module() || !module.is_module()) continue;
      const std::string attribute = module.name.substr(std::min(object.name.size() + 1, module.name.size()));
      if (is_identifier(attribute)) return fmt::format("next(self.{}.parameters()).device", attribute);
    }
  }
  return {};
}

// `x.to(self.device)` of a module that has moved on: to where its state is now. `x.to(**self.kwargs)` the same.
std::optional<Fix> edit_of_read(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Event* placed = it.placed();
  const Frame* line = placed ? placed->line() : nullptr;
  if (!line || !line->project) return std::nullopt;
  if (it.device_from.kind != "module") {
    const std::string device = module_beside(it.device_from, other);
    auto code = device.empty() ? std::nullopt : replace_read(line->source, it.device_from.name, device);
    return code ? std::optional(repair_of(*line, std::move(*code))) : std::nullopt;
  }
  // Of a module that has no parameters the first one cannot be asked.
  std::string device;
  if (other.is_state())
    device = other.is_parameter || other.role == "parameter" ? "next(self.parameters()).device"
                                                             : "next(self.buffers()).device";
  else if (const auto there = device_in_earlier_line(evidence, *line, other); there && *there != it.device_from.name)
    device = *there;
  else if (other.came_from_a_module())
    device = "next(self.parameters()).device";
  else
    return std::nullopt;
  constexpr std::string_view kSelf = "self.", kKey = "[\"device\"]";
  std::string_view name = it.device_from.name;
  if (!name.starts_with(kSelf)) return std::nullopt;
  const bool in_a_dict = name.ends_with(kKey);
  if (in_a_dict) name.remove_suffix(kKey.size());
  if (!is_identifier(name.substr(kSelf.size()))) return std::nullopt;
  const std::string with_others = fmt::format("{{**{}, \"device\": {}}}", name, device);
  const bool spread = line->source.find(fmt::format("**{}", name)) != line->source.npos;
  auto code = in_a_dict && !spread ? std::nullopt : replace_read(line->source, name, in_a_dict ? with_others : device);
  if (!code) return std::nullopt;
  return repair_of(*line, std::move(*code));
}

// A function has taken the model to the CPU, as one that makes room on a GPU does: who calls the model wants it back.
std::optional<Fix> brought_back(const Evidence& evidence, const Operand& it, const Operand& state) {
  const Frame* const away = state.moved.line();
  const auto caller = evidence.caller_of_model();
  if (!state.is_state() || !state.on_cpu() || state.moved.from != it.device || !away || !away->project ||
      away->function == "<module>" || !caller || !evidence.stack[*caller].project)
    return std::nullopt;
  // The model that was called, or a part of it that nobody has registered.
  const auto& running = evidence.refusal.modules;
  const bool whole =
      !running.empty() && running.back().devices.size() == 1 && running.back().devices[0] == state.device;
  if (!whole) return repairing(move_part_where_called(evidence));
  auto fix = move_called(evidence, *caller, it, {});
  return repairing(fix ? std::move(fix) : move_model_at(evidence, *caller, state, it));
}

// Where several lines have read it, one edit is no more than a part.
std::optional<Fix> where_it_is_read(const Evidence& evidence, const Operand& it, const Operand& other) {
  auto fix = edit_of_read(evidence, it, other);
  for (const Operand& each : evidence.operands) {
    const Operand& origin = each.origin();
    const Event* there = origin.placed();
    const Frame* line = there ? there->line() : nullptr;
    if (!fix || each.device != it.device || !line || (line->file == fix->file && line->line == fix->line)) continue;
    const bool same = origin.device_from.name == it.device_from.name;
    auto more = same ? edit_of_read(evidence, origin, other) : std::nullopt;
    if (!more) return use_site(evidence);
    fix->also.push_back({std::move(more->file), more->line, std::move(more->code)});
  }
  return fix ? fix : use_site(evidence);
}

}  // namespace

// A device kept in an attribute: .to() of the model changes the model and not what somebody wrote down about it.
std::optional<Cause> kept_device(const Evidence& evidence) {
  const Operand *it = nullptr, *other = nullptr;
  for (const Operand& one : evidence.operands)
    for (const Operand& two : evidence.operands)
      if (!it && one.device != two.device && by_a_stale_device(one, two)) it = &one, other = &two;
  if (!it) return std::nullopt;
  const auto& kept = it->origin().device_from;
  const bool module = kept.kind == "module";
  auto back = module ? std::nullopt : brought_back(evidence, *it, *other);
  return Cause{
      module ? "state-not-registered" : "cached-state-elsewhere", Confidence::medium,
      fmt::format("{} lies where {} says, a plain attribute of {} that no .to() changes, and {} was moved away from "
                  "there: {}.",
                  with_place(it->origin()), kept.name, kept.type,
                  module ? "the module itself" : std::string(other->name), with_place(*other)),
      back ? std::move(back) : where_it_is_read(evidence, it->origin(), *other)};
}

}  // namespace devtrace::report::verdict::rules
