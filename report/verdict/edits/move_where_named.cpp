// An operand brought to another one's device in a line that names it.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

// PyTorch, and what nobody patches on his own machine.
bool left_alone(const Frame& frame) {
  for (const std::string_view part : {"/torch/", "/accelerate/", "/transformers/"}) {
    if (frame.file.find(part) != frame.file.npos) return true;
  }
  return false;
}

// The operand came out of a call that stands among the arguments of the failing one: `idx=text_to_token_ids(…)`. The
// stack of its creation says which, and where. That the called function has a name for it says that the result is the
// tensor and not a list of them.
std::optional<Fix> move_made_argument(const Evidence& evidence, size_t frame, const Operand& operand,
                                      const std::string& device) {
  const Frame& here = evidence.stack[frame];
  const Stack& made = operand.created.stack;
  const size_t outside = evidence.stack.size() - frame;
  if (operand.moved.known() || frame == 0 || made.size() < outside) return std::nullopt;
  const Frame& line = made[made.size() - outside];
  const std::string_view argument = operand.name_in(frame - 1);
  if (!line.same_function(here) ||
      !(is_identifier(argument) || container_of(argument) == "args" || container_of(argument) == "kwargs"))
    return std::nullopt;
  const int64_t last = here.line + std::count(here.source.begin(), here.source.end(), '\n');
  if (line.line < here.line || line.line > last) return std::nullopt;
  std::optional<std::string> code;
  if (made.size() == outside) {
    if (makes_argument(line.source)) code = give_device(line.source, device);
  } else {
    const std::string_view called = made[made.size() - outside - 1].function;
    code = move_result(line.source, called.substr(called.rfind('.') + 1), device);
  }
  if (!code) return std::nullopt;
  return line_fix(line, std::move(*code));
}

// In the line of a library that failed: for want of a line of the user's where both sides have a name.
std::optional<Fix> move_in_library(const Evidence& evidence, const Operand& operand, const Operand& target) {
  if (evidence.stack.empty() || evidence.stack[0].project || left_alone(evidence.stack[0])) return std::nullopt;
  const std::string device = device_expression(evidence, 0, target);
  if (device.starts_with('"')) return std::nullopt;
  return move_at(evidence, 0, operand, device);
}

// How many tensors that the frame's line reads lie there.
int count_on(const Evidence& evidence, size_t frame, std::string_view device) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name, std::string_view lies_on) {
    if (lies_on == device && reads(evidence.stack[frame].source, name) > 0 &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const finding::Mention& each : evidence.refusal.mentions)
    if (each.frame == frame) add(each.name, each.device);
  for (const Operand& each : evidence.operands) add(each.name_in(frame), each.device);
  return static_cast<int>(names.size());
}

// The target brought to the operand, where the line has most of its tensors there: of what it computes with them, no
// more would be moved back.
std::optional<Fix> move_the_fewest(const Evidence& evidence, size_t frame, const Operand& operand,
                                   const Operand& target) {
  constexpr int kMore = 2;
  const std::string_view name = target.name_in(frame);
  if (operand.on_cpu() || target.is_state() || !is_identifier(name) ||
      writes_through(evidence.stack[frame].source, name) ||
      count_on(evidence, frame, operand.device) < count_on(evidence, frame, target.device) + kMore)
    return std::nullopt;
  const std::string device = device_expression(evidence, frame, operand);
  return device.starts_with('"') ? std::nullopt : move_with_siblings(evidence, frame, target, device);
}

}  // namespace

std::optional<Fix> move_where_named(const Evidence& evidence, const Operand& operand, const Operand& target) {
  std::optional<Fix> in_other_words;
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    if (!evidence.stack[frame].project) continue;
    if (auto fix = move_the_fewest(evidence, frame, operand, target)) return fix;
    const std::string device = device_of_target(evidence, frame, target);
    auto fix = move_with_siblings(evidence, frame, operand, device);
    if (!fix) fix = move_made_argument(evidence, frame, operand, device);
    if (!fix) continue;
    if (!device.starts_with('"')) return fix;
    const std::string other = device_expression(evidence, frame, target);
    in_other_words = move_with_siblings(evidence, frame, operand, other);
    if (!in_other_words) in_other_words = move_made_argument(evidence, frame, operand, other);
    break;
  }
  if (auto fix = move_in_library(evidence, operand, target)) return fix;
  return in_other_words;
}

}  // namespace devtrace::report::verdict
