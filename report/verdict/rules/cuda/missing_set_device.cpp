// C++ programs: a launch, or an allocation, ran on the device that was current, and nothing had made the right one
// current.
#include <algorithm>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp_line.h"
#include "report/verdict/cpp_origin.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"
#include "report/verdict/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

// What a choice gives to cudaSetDevice, as its line says it.
std::string_view set_device_argument(const DeviceChoice& choice) {
  const Frame* chosen = innermost_own(choice.native);
  const auto call = chosen ? report::only_call(chosen->source, "cudaSetDevice") : std::nullopt;
  return call && call->arguments.size() == 1 ? call->arguments[0] : std::string_view();
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !word_char(text[at - 1])) && (end == text.size() || !word_char(text[end]))) return true;
  }
  return false;
}

// A loop's own variable is gone behind it, and means another device at its next turn.
bool is_of_a_loop(std::string_view name, const Frame& frame) {
  std::string_view text = frame.around.text;
  for (int64_t line = frame.around.line; line <= frame.line && !text.empty(); ++line) {
    const std::string_view head = text.substr(0, text.find('\n'));
    if (const size_t loop = head.find("for ("); loop != head.npos && has_word(head.substr(loop), name)) return true;
    text.remove_prefix(std::min(text.size(), head.size() + 1));
  }
  return false;
}

// What the program gives to cudaSetDevice for that device, where this function may say the same. That is a variable of
// its own that is not the current device's as well, or a number.
std::string device_argument(const Event& made, std::string_view device, const DeviceChoice& now, const Frame& here) {
  std::string ordinal(device.substr(device.find(':') + 1));
  const std::string_view argument = set_device_argument(made.choice);
  if (argument.empty() || made.choice.device != device) return ordinal;
  const Frame& chosen = *innermost_own(made.choice.native);
  const bool holds = is_identifier(argument) && chosen.same_function(here) && argument != set_device_argument(now) &&
                     !is_of_a_loop(argument, chosen);
  return holds ? std::string(argument) : ordinal;
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
const Frame* own_line_of(const Operand& mismatched, const Evidence& evidence) {
  const auto shared = [&](const Frame& frame) {
    return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
      if (&other == &mismatched || other.device == mismatched.device) return false;
      return std::any_of(other.created.native.begin(), other.created.native.end(),
                         [&](const Frame& each) { return each.same_line(frame); });
    });
  };
  for (const Frame& frame : mismatched.created.native)
    if (frame.project && !shared(frame)) return &frame;
  return nullptr;
}

// The driver launches a kernel in the context that it was loaded in, which cudaSetDevice does not change.
Cause at_launch_by_the_driver(const Evidence& evidence) {
  const Operand& operand = evidence.operands.front();
  return {
      "memory-of-another-device", Confidence::high,
      fmt::format("Everything the kernel works on is on {}: {}. The context of {} is current{}, and a kernel runs in "
                  "the context that its module was loaded in: it takes memory of that device, or the module has to "
                  "be loaded, and the kernel launched, in a context of {}.",
                  operand.device, with_allocation(operand), evidence.current_device, chosen_where(evidence.choice),
                  operand.device),
      std::nullopt};
}

std::optional<Cause> at_launch(const Evidence& evidence) {
  const std::string_view device = evidence.operands.front().device;
  const Frame* here = innermost_own(evidence.native);
  if (here && here->source.find("cuLaunch") != here->source.npos) return at_launch_by_the_driver(evidence);
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
  const std::string argument = device_argument(evidence.operands.front().created, device, evidence.choice, *here);
  const bool number = argument.find_first_not_of("0123456789") == argument.npos;
  // A function that launches for several devices must not be given one device's number.
  if (const std::string& pointer = evidence.operands.front().name; number && is_plain_expression(pointer))
    cause.fix = repairing(device_of_pointer_before(*here, pointer));
  else
    cause.fix = repairing(set_device_before(*here, argument));
  return cause;
}

// Which device was current when it was allocated means nothing.
Cause on_the_device_of(const OwnerSaidBy& by, const Operand& mismatched, const Evidence& evidence) {
  return {"memory-of-another-device", Confidence::medium,
          fmt::format("{} is there because {} says so, whichever device is current; the kernel runs on {}{}. Other "
                      "devices reach such memory after {} alone.",
                      with_allocation(mismatched), by.what, evidence.current_device, chosen_where(evidence.choice),
                      by.opened_by),
          std::nullopt};
}

// One allocation is where nobody had chosen a device, or where it had been chosen for something else.
std::optional<Cause> at_allocation(const Evidence& evidence) {
  const auto elsewhere = [&](const Operand& it) { return it.mismatched && it.device != evidence.current_device; };
  if (std::count_if(evidence.operands.begin(), evidence.operands.end(), elsewhere) != 1) return std::nullopt;
  const Operand& mismatched = *std::find_if(evidence.operands.begin(), evidence.operands.end(), elsewhere);
  const DeviceChoice& then = mismatched.created.choice;
  const Frame* line = own_line_of(mismatched, evidence);
  if (mismatched.on_cpu() || mismatched.created.native.empty() || !(then.by_default || !then.device.empty()))
    return std::nullopt;
  const std::string current = then.by_default ? "cuda:0" : then.device;
  if (const OwnerSaidBy* by = owner_said_by(mismatched.created.call); by && current != mismatched.device)
    return on_the_device_of(*by, mismatched, evidence);
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
                    with_allocation(mismatched), evidence.current_device, chosen_where(evidence.choice)),
        line ? repairing(set_device_before(*line, device_argument(said, evidence.current_device, then, *line)))
             : std::nullopt};
  }
  const Frame* launch = innermost_own(evidence.native);
  Cause cause{
      "memory-of-another-device", Confidence::medium,
      fmt::format("{} was allocated while {} was current{}; the kernel runs on {}{}. Without access to its peer "
                  "the kernel cannot read it.",
                  with_allocation(mismatched), then.device, chosen_where(then), evidence.current_device,
                  chosen_where(evidence.choice)),
      std::nullopt};
  if (launch) cause.fix = peer_access_before(*launch, mismatched);
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
