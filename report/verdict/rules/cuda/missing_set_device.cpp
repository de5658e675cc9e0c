// C++ programs: a launch, or an allocation, ran on the device that was current, and nothing had made the right one
// current.
#include <algorithm>

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/verdict/cpp_line.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

// What the program gives to cudaSetDevice for that device, where this function may say the same: a variable of its own,
// or a number.
std::string device_argument(const Event& made, std::string_view device, const Frame& here) {
  const std::string ordinal(device.substr(device.find(':') + 1));
  const Frame* chosen = innermost_own(made.choice.native);
  if (!chosen || made.choice.device != device) return ordinal;
  const auto call = only_call(chosen->source, "cudaSetDevice");
  if (!call || call->arguments.size() != 1) return ordinal;
  const std::string argument(call->arguments[0]);
  const bool number = argument.find_first_not_of("0123456789") == argument.npos;
  return number || chosen->same_function(here) ? argument : ordinal;
}

// "x (cuda:0, allocated at main.cpp:9)".
std::string with_allocation(const Operand& operand) {
  const Frame* frame = innermost_own(operand.created.native);
  const std::string where = at(frame);
  return where.empty() ? fmt::format("{} ({})", operand.name, operand.device)
                       : fmt::format("{} ({}, allocated at {})", operand.name, operand.device, where);
}

std::string chosen_where(const DeviceChoice& choice) {
  const std::string where = at(innermost_own(choice.native));
  return where.empty() ? "" : fmt::format(", since {}", where);
}

// The line of an allocation that the others do not share: a function that allocates for all of them is right.
const Frame* own_line_of(const Operand& odd, const Evidence& evidence) {
  const auto shared = [&](const Frame& frame) {
    return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
      if (&other == &odd || other.device == odd.device) return false;
      return std::any_of(other.created.native.begin(), other.created.native.end(),
                         [&](const Frame& each) { return each.same_line(frame); });
    });
  };
  for (const Frame& frame : odd.created.native)
    if (frame.project && !shared(frame)) return &frame;
  return nullptr;
}

std::optional<Cause> at_launch(const Evidence& evidence) {
  const std::string_view device = evidence.operands.front().device;
  const Frame* here = innermost_own(evidence.native);
  const bool by_default = evidence.choice.by_default;
  Cause cause{
      "missing-set-device", Confidence::high,
      fmt::format("Everything the kernel works on is on {}: {}. {} is current{}, and nothing makes {} current "
                  "before the launch.",
                  device, with_allocation(evidence.operands.front()), evidence.current_device,
                  by_default ? " by default, for this thread never chose a device" : chosen_where(evidence.choice),
                  device),
      std::nullopt};
  if (!here) return cause;
  const std::string argument = device_argument(evidence.operands.front().created, device, *here);
  const bool number = argument.find_first_not_of("0123456789") == argument.npos;
  // A function that launches for several devices must not be given one device's number.
  if (const std::string& pointer = evidence.operands.front().name; number && is_plain_expression(pointer))
    cause.fix = repairing(device_of_pointer_before(*here, pointer));
  else
    cause.fix = repairing(set_device_before(*here, argument));
  return cause;
}

// One allocation is where nobody had chosen a device, or where it had been chosen for something else.
std::optional<Cause> at_allocation(const Evidence& evidence) {
  const auto elsewhere = [&](const Operand& it) { return it.odd && it.device != evidence.current_device; };
  if (std::count_if(evidence.operands.begin(), evidence.operands.end(), elsewhere) != 1) return std::nullopt;
  const Operand& odd = *std::find_if(evidence.operands.begin(), evidence.operands.end(), elsewhere);
  const DeviceChoice& then = odd.created.choice;
  const Frame* line = own_line_of(odd, evidence);
  if (!line || odd.on_cpu() || !(then.by_default || !then.device.empty())) return std::nullopt;
  if (then.by_default) {
    const auto here = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                   [&](const Operand& it) { return it.device == evidence.current_device; });
    Event chosen;
    chosen.choice = evidence.choice;
    const Event& said = here != evidence.operands.end() ? here->created : chosen;
    return Cause{
        "missing-set-device", Confidence::high,
        fmt::format("{} is there because its thread had chosen no device: that is the first one. The kernel runs on "
                    "{}{}.",
                    with_allocation(odd), evidence.current_device, chosen_where(evidence.choice)),
        repairing(set_device_before(*line, device_argument(said, evidence.current_device, *line)))};
  }
  const Frame* launch = innermost_own(evidence.native);
  Cause cause{
      "memory-of-another-device", Confidence::medium,
      fmt::format("{} was allocated while {} was current{}; the kernel runs on {}{}. Without access to its peer "
                  "the kernel cannot read it.",
                  with_allocation(odd), then.device, chosen_where(then), evidence.current_device,
                  chosen_where(evidence.choice)),
      std::nullopt};
  if (launch) cause.fix = peer_access_before(*launch, odd.device);
  return cause;
}

}  // namespace

std::optional<Cause> missing_set_device(const Evidence& evidence) {
  if (!evidence.in_cpp() || evidence.operands.empty() || evidence.current_device.empty()) return std::nullopt;
  if (evidence.kind == "wrong-current-device") return at_launch(evidence);
  if (evidence.kind == "remote-access") return at_allocation(evidence);
  return std::nullopt;
}

}  // namespace devtrace::report::verdict::rules
