#include "finding/finding.h"

#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"
#include "report/phrasing/system_libraries.h"

namespace devtrace::finding {

bool is_module_call(std::string_view file, std::string_view function) {
  return file.ends_with("torch/nn/modules/module.py") && function.find("call_impl") != function.npos;
}

bool calls_modules(const Frame& frame) {
  return is_module_call(frame.file, frame.function);
}

std::optional<size_t> innermost_project(const Stack& stack) {
  for (size_t index = 0; index < stack.size(); ++index) {
    if (stack[index].project) return index;
  }
  return std::nullopt;
}

const Frame* user_frame(const Stack& python) {
  return python.empty() ? nullptr : &python[innermost_project(python).value_or(0)];
}

const Frame* native_user_frame(const Stack& native) {
  const auto own = [](const Frame& frame) {
    return !frame.module.empty() && !frame.module.ends_with('/') && !report::hides_callers(frame.module);
  };
  const auto first = [&](auto&& fits) { return std::find_if(native.begin(), native.end(), fits); };
  for (const auto found : {first([](const Frame& each) { return each.project; }),
                           first([&](const Frame& each) { return own(each) && !each.file.empty(); }), first(own)})
    if (found != native.end()) return &*found;
  return native.empty() ? nullptr : &native.front();
}

bool Event::known() const {
  return time || thread || stack.is_known() || native.is_known() || !device.empty() || !from.empty() || !call.empty();
}

bool Operand::is_of_state() const {
  if (is_state() || !view_of.empty()) return true;
  const Frame* made = created.line();
  return made && made->function.ends_with("__init__") &&
         (made->source.find("register_buffer(") != made->source.npos ||
          made->source.find("nn.Parameter(") != made->source.npos);
}

Operand::Hidden Operand::hidden() const {
  const auto registered_by = [&](const Holder& module) {
    return std::any_of(held_by.begin(), held_by.end(), [&](const Chain& chain) {
      const auto from = std::find_if(chain.holders.begin(), chain.holders.end(),
                                     [&](const Holder& each) { return each.name == module.name; });
      return from != chain.holders.end() &&
             std::all_of(from, chain.holders.end(), [](const Holder& each) { return each.registers(); });
    });
  };
  const bool registered_at_last = std::any_of(held_by.begin(), held_by.end(), [](const Chain& chain) {
    return chain.holders.back().is_module() && chain.holders.back().registers();
  });
  for (const Chain& chain : held_by) {
    for (size_t index = 0; index < chain.holders.size(); ++index) {
      const Holder& holder = chain.holders[index];
      if (!holder.is_module() || holder.registers()) continue;
      if (registered_by(holder)) break;
      // A library's way from a module to who works with it, as lightning's trainer: what that has is no part of it.
      const bool object = index + 1 < chain.holders.size() && chain.holders[index + 1].kind == "object";
      if (object && !within_packages(holder.bound.file).empty()) break;
      // A list of parameters beside the modules that have them, as DistributedDataParallel's: it moves with those.
      if (!chain.holders.back().is_module() && registered_at_last) break;
      return {&chain, index};
    }
  }
  return {};
}

const Event* Operand::placed() const {
  if (moved.known()) return &moved;
  return created.known() ? &created : nullptr;
}

const Operand& Operand::origin() const {
  if (placed() || expression.empty()) return *this;
  const auto there = std::find_if(computed_from.begin(), computed_from.end(),
                                  [](const Operand& source) { return source.placed() != nullptr; });
  return there == computed_from.end() ? *this : *there;
}

bool made_by_a_module(const Operand& operand) {
  return std::any_of(operand.created.stack.begin(), operand.created.stack.end(), calls_modules);
}

bool Operand::came_from_a_module() const {
  // The owner of a method may hold modules that the method had no use for.
  const bool by_a_module = !given_by.devices.empty() && given_by.kind != "owner";
  return made_by_a_module(*this) || by_a_module ||
         std::any_of(computed_from.begin(), computed_from.end(),
                     [](const Operand& source) { return source.came_from_a_module() || source.came_from_state(); });
}

bool Operand::came_from_state() const {
  return is_of_state() || std::any_of(computed_from.begin(), computed_from.end(),
                                      [](const Operand& source) { return source.came_from_state(); });
}

// The first that a frame has for it.
static const Name* name_of(const Operand& operand, size_t frame) {
  for (const Name& each : operand.names)
    if (each.frame == frame) return &each;
  return nullptr;
}

std::string_view Operand::name_in(size_t frame) const {
  const Name* const name = name_of(*this, frame);
  return name ? std::string_view(name->name) : std::string_view();
}

bool Operand::read_again_in(size_t frame) const {
  const Name* const name = name_of(*this, frame);
  return name && name->read_again;
}

std::string_view Operand::holder_in(size_t frame) const {
  const Name* const name = name_of(*this, frame);
  return name ? std::string_view(name->holder) : std::string_view();
}

// Where memory that is no tensor came from: "memory of 4.0 KiB from cudaMalloc at main.cpp:12".
static std::string memory_words(const Operand& operand) {
  std::string out = "memory";
  if (operand.extent.value_or(0) > 0) out += " of " + report::bytes(*operand.extent);
  if (!operand.created.call.empty()) out += fmt::format(" from {}", operand.created.call);
  const Frame* frame = user_frame_of(operand.created);
  if (frame && !frame->file.empty() && frame->line > 0)
    out += fmt::format(" at {}:{}", frame->file.substr(frame->file.rfind('/') + 1), frame->line);
  return out;
}

std::string name_of(const Operand& operand) {
  if (!operand.name.empty()) return operand.name;
  if (!operand.expression.empty()) return fmt::format("the result of {}", operand.expression);
  if (operand.generator) return "a generator";
  const bool tensor = operand.dtype || operand.shape.is_known();
  if (operand.parameter && !tensor)
    return fmt::format("parameter {} ({})", *operand.parameter, operand.type.empty() ? "pointer" : operand.type);
  return !tensor && !operand.created.call.empty() ? memory_words(operand) : "a tensor";
}

std::string who_is_where(const Finding& finding) {
  std::string out;
  for (const Operand& operand : finding.operands)
    out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", name_of(operand), operand.device.empty() ? "" : " on ",
                       operand.device);
  return out;
}

}  // namespace devtrace::finding
