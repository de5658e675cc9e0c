// A tensor on the meta device has a shape and no memory: there is nothing in it to copy, read or compute with.
#include <algorithm>
#include <utility>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

namespace {

// accelerate has taken a model's values away, and its hooks bring them for the forward of the module that has them.
// `bias = self.statistics.bias`: the hook of what has it is asked for the values in front of that.
std::string ask_the_hook(const Frame& line) {
  const std::string statement = dedented(line.source);
  const std::string_view value = value_in(statement);
  const std::string_view path =
      value.substr(0, value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."));
  const std::string_view called = path.size() < value.size() && value[path.size()] == '(' ? path : std::string_view();
  const std::string_view tensor = called.empty() ? path : called.substr(0, called.rfind('.'));
  const size_t attribute = tensor.rfind('.');
  const std::string_view module = tensor.substr(0, attribute == tensor.npos ? 0 : attribute);
  if (!module.starts_with("self") || !is_reference(module) || statement.find('\n') != statement.npos) return {};
  return fmt::format("{0}._hf_hook.pre_forward({0})\n{1}", module, statement);
}

std::optional<Cause> past_the_hooks(const Evidence& evidence, const Operand& it) {
  const auto& running = evidence.refusal.modules;
  const bool hooks = std::any_of(running.begin(), running.end(),
                                 [](const auto& each) { return each.hook.starts_with("AlignDevicesHook"); });
  if (!hooks) return std::nullopt;
  Cause cause{"module-split-or-hook-missing", Confidence::medium,
              fmt::format("{} is on the meta device because accelerate's hooks keep the values of the model elsewhere: "
                          "they are there while the module that has them runs, and this line reads past its forward.",
                          it.name),
              std::nullopt};
  const auto own = innermost_project(evidence.stack);
  for (const finding::Step& step : it.lineage)
    if (step.what == "assigned") cause.fix = repair_of(step.line, ask_the_hook(step.line));
  if (!cause.fix && own) cause.fix = repair_of(evidence.stack[*own], {});
  return cause;
}

// The line that chose the meta device, with memory for what is constructed there.
std::string with_memory(const Frame& line) {
  constexpr std::pair<std::string_view, std::string_view> kEdits[] = {
      {"low_cpu_mem_usage=True", "low_cpu_mem_usage=False"}, {"\"meta\"", "\"cpu\""}, {"'meta'", "'cpu'"}};
  for (const auto& [text, other] : kEdits)
    if (const size_t at = line.source.find(text); at != line.source.npos)
      return dedented(std::string(line.source).replace(at, text.size(), other));
  return {};
}

// A device map has left it on the disk or in host memory: that the model is moved as a whole is not meant.
std::optional<Cause> left_by_the_map(const Evidence& evidence, const Operand& it) {
  if (!it.is_state() || it.device_map.empty()) return std::nullopt;
  Cause cause{"module-split-or-hook-missing", Confidence::medium,
              fmt::format("{} has no values here: {}'s device map ({}) keeps them elsewhere, and they are brought for "
                          "calls alone. A model that a map has placed is not moved as a whole; one map entry for "
                          "all, {{\"\": device}}, loads it to one device.",
                          it.name, it.root_class.empty() ? "the model" : it.root_class, it.device_map),
              std::nullopt};
  const auto own = innermost_project(evidence.stack);
  if (!own) return cause;
  const Frame& here = evidence.stack[*own];
  cause.fix = repair_of(here, {});
  const auto device = moved_to(here.source);
  const auto chosen = std::ranges::find(it.lineage, "chosen", &finding::Step::what);
  if (!device || chosen == it.lineage.end() || chosen->line.file != here.file ||
      !in_one_function(statements_around(here), chosen->line.line, here.line))
    return cause;
  const std::string map = "device_map=" + keyword_argument(chosen->line.source, "device_map").value_or("");
  std::string code = dedented(chosen->line.source);
  if (const size_t at = code.find(map); at != code.npos && code.find_first_of("\"'", at) == at + map.find('=') + 1)
    cause.fix = repair_of(chosen->line, code.replace(at, map.size(), fmt::format("device_map={{\"\": {}}}", *device)));
  return cause;
}

// Constructed without memory, as a checkpoint was to fill it. `alone`: it meets nothing, and is only to be moved.
std::optional<Cause> never_filled(const Operand& it, bool alone) {
  const auto chosen = std::ranges::find(it.lineage, "chosen", &finding::Step::what);
  const bool others = std::ranges::any_of(it.root_devices, [](const auto& each) { return each != "meta"; });
  if (!it.is_state() || (!others && chosen == it.lineage.end())) return std::nullopt;
  const std::string model = it.root_class.empty() ? "its model" : it.root_class;
  const bool known = chosen != it.lineage.end();
  const std::string since = others ? fmt::format(
                                         "other state of {} has values by now, and this was given none, as "
                                         "what a checkpoint has no key for. to_empty() would drop the others'",
                                         model)
                                   : fmt::format("nothing has given {} values since", model);
  // `Layer(device="meta")` is nobody's default.
  const bool by_default = known && chosen->line.source.find("device=") == std::string::npos;
  Cause cause{by_default ? "default-or-current-device" : "no-memory-yet", Confidence::medium,
              fmt::format("{} is on the meta device, where tensors have a shape and no values{}: {}.", it.name,
                          known ? fmt::format(", as {} says", at(&chosen->line)) : "", since),
              std::nullopt};
  if (known) cause.fix = repair_of(chosen->line, alone ? with_memory(chosen->line) : std::string());
  return cause;
}

}  // namespace

std::optional<Cause> on_meta(const Evidence& evidence) {
  const auto is_there = [](const Operand& each) { return each.device == "meta"; };
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(), is_there);
  if (it == evidence.operands.end()) return std::nullopt;
  if (auto cause = past_the_hooks(evidence, *it)) return cause;
  if (auto cause = left_by_the_map(evidence, *it)) return cause;
  if (auto cause = never_filled(*it, evidence.operands.size() == 1)) return cause;
  Cause cause{
      "no-memory-yet", it->is_state() ? Confidence::high : Confidence::medium,
      fmt::format("{} is on the meta device, where tensors have a shape and no values: it has to be given memory "
                  "(.to_empty(device=…)) and values (a state dict) first.",
                  it->name),
      std::nullopt};
  // Only a module has to_empty, and only of a parameter or buffer is it known that a module is moved.
  for (const Frame& frame : evidence.stack) {
    if (!frame.project || !it->is_state()) continue;
    if (auto code = to_empty(frame.source)) cause.fix = line_fix(frame, std::move(*code));
    break;
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
