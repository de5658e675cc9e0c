#include "report/verdict/evidence.h"

#include <algorithm>
#include <cctype>

#include "report/base/phrasing.h"

namespace devtrace::report::verdict {
namespace {

Stack read_stack(const Json& frames) {
  Stack stack;
  stack.reserve(frames.size());
  for (const Json& frame : frames) {
    stack.push_back({string(frame, "file"), string(frame, "function"), string(frame, "source"),
                     integer(frame, "line").value_or(0), flag(frame, "project")});
  }
  return stack;
}

Event read_event(const Json& operand, const char* key) {
  const Json& record = object(operand, key);
  Event event;
  event.known = !record.empty();
  event.time = number(record, "time");
  event.from = string(record, "from");
  event.to = string(record, "to");
  event.stack = read_stack(array(record, "python"));
  return event;
}

Operand read_operand(const Json& record) {
  Operand operand;
  operand.name = name_of(record);
  operand.expression = string(record, "expression");
  operand.role = string(record, "role");
  operand.device = string(record, "device");
  operand.dtype = string(record, "dtype");
  operand.module_path = string(record, "module_path");
  operand.module_class = string(record, "module_class");
  operand.root_class = string(record, "root_class");
  operand.hook = string(record, "hook");
  operand.device_map = string(record, "device_map");
  operand.odd = flag(record, "odd");
  operand.is_parameter = flag(record, "is_parameter");
  for (const Json& name : array(record, "names")) {
    const auto frame = integer(name, "frame");
    if (frame && *frame >= 0 && !string(name, "name").empty()) {
      operand.names.push_back({static_cast<size_t>(*frame), string(name, "name")});
    }
  }
  operand.created = read_event(record, "created");
  operand.moved = read_event(record, "moved");
  return operand;
}

bool calls_modules(const Frame& frame) {
  return frame.file.ends_with("torch/nn/modules/module.py") && frame.function.find("call_impl") != frame.function.npos;
}

}  // namespace

std::optional<size_t> innermost_project(const Stack& stack) {
  for (size_t index = 0; index < stack.size(); ++index) {
    if (stack[index].project) return index;
  }
  return std::nullopt;
}

const Frame* Event::line() const {
  if (stack.empty()) return nullptr;
  return &stack[innermost_project(stack).value_or(0)];
}

bool Operand::is_of_state() const {
  if (is_state()) return true;
  const Frame* made = created.line();
  return made && made->function.ends_with("__init__") &&
         (made->source.find("register_buffer(") != made->source.npos ||
          made->source.find("nn.Parameter(") != made->source.npos);
}

const Event* Operand::placed() const {
  if (moved.known) return &moved;
  return created.known ? &created : nullptr;
}

std::string_view Operand::name_in(size_t frame) const {
  for (const Name& each : names) {
    if (each.frame == frame) return each.name;
  }
  return {};
}

Evidence::Evidence(const Json& finding)
    : kind(string(finding, "kind")),
      operation(string(finding, "operation")),
      argument(string(finding, "argument")),
      message(string(finding, "message")),
      current_device(string(finding, "current_device")),
      note(string(finding, "note")),
      stack(read_stack(array(finding, "python"))),
      copy{string(object(finding, "copy"), "direction"), string(object(finding, "copy"), "source"),
           string(object(finding, "copy"), "destination")} {
  for (const Json& operand : array(finding, "operands")) {
    if (operand.is_object()) operands.push_back(read_operand(operand));
  }
}

bool Evidence::passes_through(std::string_view part) const {
  return std::any_of(stack.begin(), stack.end(),
                     [&](const Frame& frame) { return frame.file.find(part) != frame.file.npos; });
}

std::optional<size_t> Evidence::caller_of_model() const {
  for (size_t index = stack.size(); index-- > 1;) {
    if (calls_modules(stack[index - 1]) && !calls_modules(stack[index])) return index;
  }
  return std::nullopt;
}

// Stacks are compared from the outermost frame inwards. Every frame that the two share, line for line, was running both
// when the tensor was made and when the operation was refused, unless a loop came by twice: so the frames further in
// must be of the model as well.
bool Evidence::made_inside_model(const Operand& operand) const {
  const Stack& made = operand.created.stack;
  const auto caller = caller_of_model();
  if (!caller || made.empty()) return false;
  const size_t depth = stack.size() - *caller;  // frames from the outermost to the caller of the model
  if (made.size() <= depth) return false;
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (from_outside == depth ? !here.same_line(there) : !here.same_function(there)) return false;
  }
  return calls_modules(made[made.size() - depth - 1]);
}

bool Evidence::made_before_call(const Operand& operand) const {
  const Event* placed = operand.placed();
  if (!placed || placed->stack.empty() || stack.empty()) return false;
  const Stack& made = placed->stack;
  const size_t depth =
      stack.size() - innermost_project(stack).value_or(0);  // frames from the outermost to that function
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    if (from_outside > made.size()) return true;  // made by one of its callers
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (from_outside == depth ? !here.same_function(there) : !here.same_line(there)) return true;
  }
  return false;
}

bool Evidence::made_by_a_module(const Operand& operand) {
  return std::any_of(operand.created.stack.begin(), operand.created.stack.end(), calls_modules);
}

std::optional<size_t> Evidence::frame_that_made(const Operand& operand) const {
  const Stack& made = operand.created.stack;
  if (made.empty()) return std::nullopt;
  for (size_t index = 0; index < stack.size(); ++index) {
    const size_t outside = stack.size() - index;
    if (outside != made.size() || !stack[index].same_function(made.front())) continue;
    return index;
  }
  return std::nullopt;
}

}  // namespace devtrace::report::verdict
