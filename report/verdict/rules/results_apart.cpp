// What modules computed, or what is of their state, on both sides: they lie on different devices.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"

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

}  // namespace

std::optional<Cause> results_apart(const Evidence& evidence) {
  if (auto cause = answer_of_a_spread_model(evidence)) return cause;
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
