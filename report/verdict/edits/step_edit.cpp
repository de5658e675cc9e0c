#include "report/verdict/edits/step_edit.h"

#include <algorithm>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {

using finding::Step;

Operands sources_of(const Operand& it) {
  Operands there;
  if (is_taken_where_made(it)) return there;
  // Of Python's numbers, wherever the tensors lie that were counted. A view has its source's memory, of whatever that
  // is.
  const Frame* const line = it.created.line();
  const bool of_numbers = line && !it.moved.known() && line->source.find("torch.tensor(") != std::string::npos;
  for (const Operand& source : it.computed_from) {
    const Frame* const made = source.created.line();
    const bool view = made && line && made->same_line(*line) && source.created.time == it.created.time;
    if (source.device == it.device && (view || !of_numbers)) there.push_back(&source);
  }
  return there;
}

bool current_by_name(const Operand& it) {
  return !it.on_cpu() && it.device_from.says == "cuda";
}

bool brought_by_no_word(const Evidence& evidence, const Operand& it) {
  const Frame* const line = it.moved.line();
  return !it.on_cpu() && line && line->project && it.device == evidence.current_device && !it.is_of_state() &&
         line->source.find("device") == std::string::npos && line->source.find("cuda") == std::string::npos &&
         line->source.find(".to(") == std::string::npos;
}

namespace {

// What a call gives, by another one; "cpu" was meant.
std::optional<std::string> give_instead(std::string_view source, std::string_view given, std::string_view device) {
  const size_t at = source.find(given);
  if (at == source.npos || given.find("cpu") != given.npos) return std::nullopt;
  if (given.front() != '"' && given.front() != '\'') return replace_expression(source, given, device);
  const bool once = source.find(given, at + 1) == source.npos;
  return once ? std::optional(dedented(spliced(source, {at, at + given.size()}, device))) : std::nullopt;
}

// Are all of these names operands that lie where it lies, or siblings of it?
bool all_lie_with(const Operand& it, const std::vector<std::string>& names, const Evidence& evidence) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto is = [&](const Operand& each) {
      return each.device == it.device &&
             std::any_of(each.names.begin(), each.names.end(), [&](const auto& own) { return own.name == name; });
    };
    return std::any_of(evidence.operands.begin(), evidence.operands.end(), is) ||
           std::any_of(it.siblings.begin(), it.siblings.end(), is);
  });
}

// Does an operand, or what one was computed from, have that name and lie there?
bool lies_there(const Operand& it, std::string_view name, std::string_view device) {
  const auto is = [&](const finding::Name& each) { return each.name == name; };
  return (it.device == device && std::any_of(it.names.begin(), it.names.end(), is)) ||
         std::any_of(it.computed_from.begin(), it.computed_from.end(),
                     [&](const Operand& source) { return lies_there(source, name, device); });
}

// `samples, mask = latent["samples"], latent["mask"]`: each part whose variable is an operand on the CPU.
std::optional<std::string> edit_of_display(std::string_view source, const std::vector<std::string>& targets,
                                           const Operand& it, const Evidence& evidence, std::string_view device) {
  const std::string statement = dedented(source);
  const std::vector<std::string> parts = parts_of_display(value_in(statement));
  if (!it.on_cpu() || targets.size() < 2 || parts.size() != targets.size()) return std::nullopt;
  std::string all;
  bool own = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const auto& mentions = evidence.refusal.mentions;
    const bool left = std::any_of(evidence.operands.begin(), evidence.operands.end(),
                                  [&](const Operand& each) { return lies_there(each, targets[i], it.device); }) ||
                      std::any_of(mentions.begin(), mentions.end(), [&](const finding::Mention& each) {
                        return each.name == targets[i] && each.device == it.device;
                      });
    own = own || (left && lies_there(it, targets[i], it.device));
    if (left && !is_reference(part)) return std::nullopt;
    all += (all.empty() ? "" : ", ") + (left ? fmt::format("{}.to({})", part, device) : part);
  }
  return own ? replace_value(statement, all) : std::nullopt;
}

// `keys, values = f(x)` → `keys, values = (value.to(device) for value in f(x))`, where these are all operands or
// siblings of one, on one device.
std::optional<std::string> edit_of_unpacked(std::string_view source, const Operand& it, const Evidence& evidence,
                                            std::string_view device) {
  const std::vector<std::string> targets = unpacked_names(source);
  if (auto code = edit_of_display(source, targets, it, evidence, device)) return code;
  const auto named = [&](const finding::Name& each) {
    return std::find(targets.begin(), targets.end(), each.name) != targets.end();
  };
  if (!it.on_cpu() || called_in_value(source).empty() || std::none_of(it.names.begin(), it.names.end(), named) ||
      !all_lie_with(it, targets, evidence) || binds(source, "value"))
    return std::nullopt;
  return replace_value(source, fmt::format("(value.to({}) for value in {})", device, value_in(source)));
}

// `batch` of a class that typing.NamedTuple or collections.namedtuple has made: no list may take its place.
bool is_named_tuple(const Operand& it, std::string_view container) {
  return std::any_of(it.held_by.begin(), it.held_by.end(), [&](const finding::Chain& chain) {
    return !chain.holders.empty() && chain.holders.back().name == container && chain.holders.back().kind == "tuple" &&
           chain.holders.back().type != "tuple";
  });
}

// Does the statement give the operand itself its name?
bool is_named_in(const Operand& it, std::string_view source) {
  const auto target = assigned_name(source);
  return target && std::any_of(it.names.begin(), it.names.end(),
                               [&](const finding::Name& each) { return each.name == with_one_quote(*target); });
}

// `losses = build(labels)`, where the operand is something that the call has computed from `labels` alone, and kept:
// that is given on the device.
std::optional<std::string> edit_of_given(const Step& step, const Operand& it, std::string_view device) {
  const Operands sources = sources_of(it);
  const std::string_view source = step.line.source;
  const std::string called = called_in_value(source);
  if (step.what != "returned" || !it.on_cpu() || called.empty() || !assigned_name(source) || sources.size() != 1 ||
      is_named_in(it, source))
    return std::nullopt;
  for (const finding::Name& each : sources[0]->names)
    if (is_identifier(each.name) && callee_of(source, each.name))
      if (auto code = replace_read(source, each.name, fmt::format("{}.to({})", each.name, device))) return code;
  return std::nullopt;
}

// What the line gives a name, on that device: the operand, or the container that has it.
std::optional<std::string> edit_of_value(const Evidence& evidence, const Step& step, const Operand& it,
                                         std::string_view device) {
  const std::string_view source = step.line.source;
  // A function that has returned, and has handed it on.
  if (step.what == "returned" && trimmed(source).starts_with("return ")) return move_value(source, device);
  if (auto code = edit_of_given(step, it, device)) return code;
  const auto target = assigned_name(source);
  if (!target) return edit_of_unpacked(source, it, evidence, device);
  const std::string path = it.is_state() ? "." + it.module_path : std::string();
  const std::string written = with_one_quote(*target);
  // Another function of the program's may have another thing by that name.
  const auto runs = [&](const Frame& frame) { return frame.same_function(step.line); };
  const bool running = std::ranges::any_of(evidence.stack, runs);
  for (const finding::Name& each : it.names) {
    const Frame* const has = each.frame < evidence.stack.size() ? &evidence.stack[each.frame] : nullptr;
    if (running && has && has->project && !runs(*has)) continue;
    // Moved there already, it has been given other tensors since.
    if (each.name == written + path)
      return it.is_state() && says_device(source) ? std::nullopt : move_value(source, device);
    // A model that an object has, moved behind the line that gave the object its name.
    if (it.is_state() && it.is_of_whole_model() && each.name.starts_with(written + ".") && each.name.ends_with(path))
      return fmt::format("{}\n{}.to({})", dedented(source), each.name.substr(0, each.name.size() - path.size()),
                         device);
    const std::string_view container = container_of(each.name),
                           subscript = std::string_view(each.name).substr(container.size());
    const bool one_step = !it.is_state() && !container.empty() && each.name.find(']') + 1 == each.name.size();
    if (!one_step) continue;
    if (container == container_of(written)) return move_value(source, device);
    if (container == *target && is_named_tuple(it, container))
      return fmt::format("{0}\n{1} = {1}._make(value.to({2}) for value in {1})", dedented(source), container, device);
    if (container == *target && !called_in_value(source).empty())
      return replace_value(
          source, moved_container(it, container, subscript, value_in(source), std::string(device), step.line.file));
  }
  return std::nullopt;
}

}  // namespace

bool names_no_number(const finding::Step& step) {
  if (says_current_device(step.line.source)) return true;
  const auto said = moved_to(step.line.source);
  return said && std::ranges::any_of(step.devices, [&](const finding::DeviceExpression& each) {
           return each.unnumbered && each.expression == *said;
         });
}

std::optional<std::string> edit_of_step(const Evidence& evidence, const finding::Step& step, const Operand& it,
                                        std::string_view device) {
  const std::string_view source = step.line.source;
  if (step.what == "discarded") return kept_move(source);
  if (device.empty()) return std::nullopt;
  if (step.what == "constructed") {
    if (says_device(source)) return std::nullopt;
    auto code = move_constructed(source, step.call, device);
    return code ? code : move_result(source, step.call, device);
  }
  if (step.what == "appended") return it.on_cpu() ? give_device_to_all(source, device) : std::nullopt;
  if (step.what == "given" && step.otherwise == device) return std::nullopt;  // it says so already
  if (step.what == "given") return give_instead(source, step.otherwise, device);
  if (step.what == "defaulted") return give_argument(source, step.call, step.parameter, device);
  const bool bound = step.what == "returned" || step.what == "assigned";
  // A module goes to its device as a whole, unless it was put around a part that had been moved already.
  const bool around = step.what == "made" && device.starts_with("next(self.");
  if (step.what != "moved" && !(bound && it.is_state()) && it.is_of_state() && in_a_constructor(it.created.stack) &&
      !around)
    return std::nullopt;
  if (bound && it.is_state() && !it.on_cpu()) return std::nullopt;
  // `{name: value.to(model.device) for name, value in inputs.items()}` has moved it, and says where.
  const std::string_view value = bound ? trimmed(value_in(source)) : std::string_view();
  if ((value.starts_with('{') || value.starts_with('[')) && value.find(" for ") != value.npos)
    if (auto code = redirect_move(source, device)) return code;
  if (bound) return edit_of_value(evidence, step, it, device);
  if (says_current_device(source) || current_by_name(it)) {
    auto code = redirect_move(source, device);
    if (!code) code = give_device(source, device);
    return code ? code : say_device(source, device);
  }
  if (step.what == "moved" && brought_by_no_word(evidence, it) && trimmed(source).starts_with("return "))
    return move_value(source, device);
  if (step.what != "made" || it.moved.known() || says_device(source)) return std::nullopt;
  if (auto code = give_device(source, device)) return code;
  // Of `x, y = torch.ones(3), torch.ones(3)` only one may be meant, where another function uses them.
  const auto own = innermost_project(evidence.stack);
  const auto targets = unpacked_names(source);
  const bool here = own && evidence.stack[*own].same_function(step.line);
  if (targets.empty() || (here && all_lie_with(it, targets, evidence)))
    if (auto code = give_device_to_all(source, device)) return code;
  if (gives_new_tensor(source)) return move_value(source, device);
  return targets.empty() ? std::nullopt : move_new_elements(source, device);  // else it may be another's element
}

}  // namespace devtrace::report::verdict
