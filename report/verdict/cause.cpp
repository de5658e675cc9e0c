#include "report/verdict/cause.h"

#include <algorithm>
#include <cctype>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/phrasing/signature.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

std::string in_quotes(std::string_view device) {
  return fmt::format("\"{}\"", device);
}

// A model of transformers has `.device`; a plain nn.Module has not. The first frame inside the call that is the model's
// own tells.
bool calls_transformers_model(const Evidence& evidence, size_t caller) {
  for (size_t index = caller; index-- > 0;) {
    const auto in = [&](std::string_view part) {
      return evidence.stack[index].file.find(part) != std::string_view::npos;
    };
    if (in("/torch/nn/modules/module.py") || in("/torch/utils/") || in("/accelerate/") || in("/transformers/utils/"))
      continue;
    return in("/transformers/generation/") ||
           (in("/transformers/models/") && evidence.stack[index].function.ends_with("forward"));
  }
  return false;
}

// The device's own name, where the same function moved the target there further up: `device` after `model.to(device)`.
std::optional<std::string> device_of_move(const Frame& here, const Operand& target) {
  const Frame* moved = target.moved.line();
  if (!moved || !moved->same_function(here) || moved->line >= here.line) return std::nullopt;
  return moved_to(moved->source);
}

}  // namespace

Fix repair_of(const Frame& line, std::string code) {
  return {std::move(code), line.file, line.line, Repairs::cause};
}

Fix line_fix(const Frame& line, std::string code) {
  return {std::move(code), line.file, line.line, Repairs::line};
}

std::optional<Fix> repairing(std::optional<Fix> fix) {
  if (fix) fix->repairs = Repairs::cause;
  return fix;
}

std::string at(const Frame* frame) {
  if (frame && frame->file.empty() && !frame->offset.empty() && !frame->function.empty())
    return fmt::format("{} in {}", frame->offset, short_name_in_signature(frame->function));
  if (!frame || frame->file.empty()) return {};
  const std::string_view file = std::string_view(frame->file).substr(frame->file.rfind('/') + 1);
  return frame->line > 0 ? fmt::format("{}:{}", file, frame->line) : std::string(file);
}

std::string with_place(const Operand& operand) {
  const Event* placed = operand.placed();
  const std::string where = placed ? at(placed->line()) : std::string();
  if (where.empty()) return fmt::format("{} ({})", operand.name, operand.device);
  return fmt::format("{} ({}, {} {})", operand.name, operand.device,
                     placed == &operand.moved ? "moved there at" : "created there at", where);
}

// The variable that an element of a list was computed from, where another one of the list is on another device.
static std::optional<std::string_view> source_of_element(const Evidence& evidence, size_t frame,
                                                         const Operand& element) {
  const std::string_view list = container_of(element.name_in(frame));
  const auto beside = [&](const Operand& each) {
    return each.device != element.device && container_of(each.name_in(frame)) == list;
  };
  if (list.empty() || std::none_of(evidence.operands.begin(), evidence.operands.end(), beside)) return std::nullopt;
  for (const Operand& source : element.computed_from)
    if (source.device == element.device && is_identifier(source.name_in(frame))) return source.name_in(frame);
  return std::nullopt;
}

// `parts[1]`: a list that is shorter in another round has none.
static bool is_by_number(std::string_view name) {
  const size_t bracket = name.rfind('[');
  return bracket != name.npos && bracket + 1 < name.size() &&
         std::isdigit(static_cast<unsigned char>(name[bracket + 1]));
}

// What a line further up in that frame's function knows for the target's device, and is no element by its number.
static std::string_view passed_beside(const Evidence& evidence, size_t frame, const Operand& target) {
  for (const Operand& operand : evidence.operands)
    for (const finding::Step& step : operand.lineage) {
      const std::string_view words = expression_of(step, target.device);
      const Frame& here = evidence.stack[frame];
      if (step.line.same_function(here) && step.line.line < here.line && !words.empty() && !is_by_number(words))
        return words;
    }
  return {};
}

// `total = 0` above the line, where a variable that is summed up begins: in the first round it has no device.
static bool begins_as_number(const Frame& frame, std::string_view variable) {
  const auto line = assigned_above(frame, variable);
  const std::string_view value = line ? trimmed(value_in(line->source)) : std::string_view();
  return !value.empty() && value.find_first_not_of("0123456789.") == value.npos;
}

std::string device_of_target(const Evidence& evidence, size_t frame, const Operand& target) {
  const std::string_view own_name = target.name_in(frame);
  // A call of a model, model(…) or model.generate(…): the model, as the line calls it. One that hooks spread over
  // devices has no device of its own.
  for (const Operand& operand : evidence.operands) {
    if (&operand == &target || !target.is_state() || !target.hook.empty() || target.root_devices.size() > 1) continue;
    const auto name = operand.name_in(frame);
    const auto callee = callee_with(evidence.stack[frame].source, name);
    if (!callee) continue;
    const std::string owner = callee->substr(0, callee->rfind('.'));
    for (const std::string& model : {*callee, owner}) {
      const bool called = model == *callee && evidence.caller_of_model() == frame;
      if (own_name.empty() ? !called : !own_name.starts_with(model + ".") || model == "self") continue;
      if (calls_transformers_model(evidence, frame)) return model + ".device";
      if (called) return fmt::format("next({}.{}()).device", model, target.role == "buffer" ? "buffers" : "parameters");
    }
  }
  if (is_identifier(own_name)) {
    const std::string_view words =
        begins_as_number(evidence.stack[frame], own_name) ? expression_of(evidence, frame, target.device) : "";
    return words.empty() ? fmt::format("{}.device", own_name) : std::string(words);
  }
  if (const auto name = device_of_move(evidence.stack[frame], target)) return *name;
  // Of a list that another element is to be moved of, the number may be none's in another round.
  if (const auto other = source_of_element(evidence, frame, target)) return fmt::format("{}.device", *other);
  if (is_reference(own_name)) {
    std::string_view words = is_by_number(own_name) ? expression_of(evidence, frame, target.device) : "";
    // Another round's list may have fewer elements.
    const bool behind_first = is_by_number(words) && words.find("[0]") == words.npos;
    if (const auto others = behind_first ? passed_beside(evidence, frame, target) : ""; !others.empty()) words = others;
    return words.empty() ? fmt::format("{}.device", own_name) : std::string(words);
  }
  if (is_call(own_name) || (own_name.empty() && frame == 0)) {
    if (const auto tensor = begins_with(own_name.empty() ? target.expression : own_name))
      return fmt::format("{}.device", *tensor);
  }
  // Another tensor in this line that lies there, too.
  for (const finding::Mention& mention : evidence.refusal.mentions) {
    if (mention.frame == frame && mention.device == target.device && is_reference(mention.name) &&
        reads(evidence.stack[frame].source, mention.name) > 0)
      return fmt::format("{}.device", mention.name);
  }
  return in_quotes(target.device);
}

std::string_view expression_of(const finding::Step& step, std::string_view device) {
  for (const finding::DeviceExpression& each : step.devices)
    if (each.device == device) return each.expression;
  return {};
}

std::string_view expression_of(const Evidence& evidence, size_t frame, std::string_view device) {
  for (const finding::FrameExpression& each : evidence.refusal.expressions)
    if (each.frame == frame && each.device == device) return each.expression;
  return {};
}

std::string expression_or_number(const finding::Step& step, std::string_view device) {
  const std::string_view known = expression_of(step, device);
  return known.empty() ? in_quotes(device) : std::string(known);
}

// Of the first step in that line that knows words for the device; what operands were computed from has steps, too.
static std::string_view expression_in(const Operand& operand, const Frame& line, std::string_view device) {
  for (const finding::Step& step : operand.lineage)
    if (step.line.same_line(line))
      if (const std::string_view known = expression_of(step, device); !known.empty()) return known;
  for (const Operand& source : operand.computed_from)
    if (const std::string_view known = expression_in(source, line, device); !known.empty()) return known;
  return {};
}

std::string expression_or_number(const Evidence& evidence, const Frame& line, std::string_view device) {
  std::string_view known;
  for (const Operand& operand : evidence.operands)
    if (known.empty()) known = expression_in(operand, line, device);
  for (size_t frame = 0; known.empty() && frame < evidence.stack.size(); ++frame)
    if (evidence.stack[frame].same_line(line)) known = expression_of(evidence, frame, device);
  return known.empty() ? in_quotes(device) : std::string(known);
}

// `kept["weight"].device` where the line says `kept[name]`, which is another key in the next round.
static std::string with_the_lines_key(std::string_view line, std::string expression) {
  const size_t bracket = expression.find("[\""), end = expression.find("\"]", bracket);
  if (bracket == std::string::npos || end == std::string::npos) return expression;
  const std::string_view container = std::string_view(expression).substr(0, bracket + 1);
  const size_t at = line.find(container), close = line.find(']', at);
  if (at == line.npos || close == line.npos) return expression;
  const std::string_view key = line.substr(at + container.size(), close - at - container.size());
  return is_identifier(key) ? expression.replace(bracket + 1, end + 1 - bracket - 1, key) : expression;
}

std::string device_expression(const Evidence& evidence, size_t frame, const Operand& target) {
  std::string device = device_of_target(evidence, frame, target);
  const std::string_view other = device.starts_with('"') ? expression_of(evidence, frame, target.device) : "";
  return with_the_lines_key(evidence.stack[frame].source, other.empty() ? std::move(device) : std::string(other));
}

bool names(const Fix& fix, const Operand& target) {
  return fix.code.find(in_quotes(target.device)) != fix.code.npos;
}

bool in_failing_library(const Evidence& evidence, const Fix& fix) {
  return !evidence.stack.empty() && !evidence.stack[0].project && fix.file == evidence.stack[0].file;
}

std::optional<size_t> frame_that_went_on(const Evidence& evidence, const Stack& ended) {
  const size_t most = std::min(evidence.stack.size(), ended.size());
  for (size_t outside = 1; outside <= most; ++outside) {
    const size_t frame = evidence.stack.size() - outside;
    const Frame &here = evidence.stack[frame], &then = ended[ended.size() - outside];
    if (here.same_line(then)) continue;
    return here.same_function(then) ? std::optional(frame) : std::nullopt;
  }
  return std::nullopt;
}

bool there_before(const Operand& operand, const Frame& here, const Frame& line) {
  const Event* placed = operand.placed();
  if (!placed) return true;
  for (const Frame& frame : placed->stack) {
    if (frame.same_function(here)) return frame.line < line.line;
  }
  return true;
}

}  // namespace devtrace::report::verdict
