// C++ programs: a launch, or an allocation, ran on the device that was current, and nothing had made the right one
// current.
#include <algorithm>
#include <iterator>
#include <vector>

#include "common/format.h"
#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp_device.h"
#include "report/verdict/cpp_line.h"
#include "report/verdict/cpp_origin.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"
#include "report/verdict/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

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

// A line of an allocation that others share is of a function that allocates for all of them, and right.
bool is_shared(const Frame& frame, const Operand& mismatched, const Evidence& evidence) {
  return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
    if (&other == &mismatched || other.device == mismatched.device) return false;
    return std::any_of(other.created.native.begin(), other.created.native.end(),
                       [&](const Frame& each) { return each.same_line(frame); });
  });
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

// An allocation that says its device by its stream, beside a launch that says another stream: with that one.
std::optional<Fix> with_stream_of(const Frame& launch, const Evidence& evidence, const Operand& memory) {
  const Frame* made = innermost_own(memory.created.native);
  const OwnerSaidBy* by = owner_said_by(memory.created.call);
  if (!by || by->what != "its stream" || !made || !made->same_function(launch)) return std::nullopt;
  const std::string kernel = unqualified_name(evidence.operation);
  const std::string_view stream = stream_of_launch(launch.source, kernel);
  const auto call = report::only_call(made->source, memory.created.call);
  if (stream.empty() || !call || call->arguments.empty()) return std::nullopt;
  return with_argument(*made, memory.created.call, call->arguments.size() - 1, stream);
}

// Mapped memory is opened to a device by a call of its own: with the range that the line says that mapped it.
std::optional<Fix> with_access(const Frame& launch, const Evidence& evidence, const Operand& memory) {
  const Frame* mapped = innermost_own(memory.created.native);
  const auto call = mapped ? report::only_call(mapped->source, "cuMemMap") : std::nullopt;
  if (!call || call->arguments.size() < 2 || !mapped->same_function(launch)) return std::nullopt;
  const std::string words = device_words({evidence.current_device, evidence.choice}, launch);
  return statement_before(
      launch, fmt::format("CUmemAccessDesc {0} = {{{{CU_MEM_LOCATION_TYPE_DEVICE, {{{1}}}}}, "
                          "CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};\ncuMemSetAccess({2}, {3}, &{0}, 1);",
                          free_name(launch, "opened"), words.empty() ? ordinal_of(evidence.current_device) : words,
                          call->arguments[0], call->arguments[1]));
}

// Its owner was said whichever device was current, and the kernel may run where it should.
std::optional<Cause> said_elsewhere(const Evidence& evidence, const Frame* launch) {
  const Operand& memory = evidence.operands.front();
  const OwnerSaidBy* by = owner_said_by(memory.created.call);
  if (!by || !launch) return std::nullopt;
  auto fix =
      by->call == "cuMemMap" ? with_access(*launch, evidence, memory) : with_stream_of(*launch, evidence, memory);
  if (!fix) return std::nullopt;
  Cause cause = on_the_device_of(*by, memory, evidence);
  cause.confidence = Confidence::high;
  cause.fix = repairing(std::move(fix));
  return cause;
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
      repairing(choose_before(operand.created.native,
                              {evidence.current_device, evidence.choice, &operand.created.choice}, nullptr,
                              [](const Frame&) { return true; }))};
}

std::optional<Cause> at_launch(const Evidence& evidence) {
  const std::string_view device = evidence.operands.front().device;
  const Frame* here = innermost_own(evidence.native);
  if (auto cause = said_elsewhere(evidence, here)) return cause;
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
  const Operand& operand = evidence.operands.front();
  if (auto fix = put_back(evidence.choice)) {
    cause.because += " The guard that chose it puts back another device than it found.";
    cause.fix = repairing(std::move(fix));
    return cause;
  }
  const WantedDevice wanted{device, operand.created.choice, &evidence.choice, operand.name};
  const std::string words = device_words(wanted, *here);
  // A function that launches for several devices must not be given one device's number.
  if (!words.empty() || !is_plain_expression(operand.name))
    cause.fix = repairing(chosen_before(*here, wanted, words.empty() ? ordinal_of(device) : words));
  else
    cause.fix = repairing(device_of_pointer_before(*here, operand.name));
  return cause;
}

// Two lines of one function call another one for memory, and differ in one argument: the line with the other's.
std::optional<Fix> as_the_others(const Operand& mismatched, const Evidence& evidence) {
  const auto& mine = mismatched.created.native;
  for (const Operand& other : evidence.operands) {
    if (other.device != evidence.current_device) continue;
    for (size_t i = 1; i < mine.size(); ++i) {
      const Frame &line = mine[i], &called = mine[i - 1];
      if (!line.project || !called.project) continue;
      const auto same = std::ranges::find_if(other.created.native, [&](const Frame& each) {
        return each.project && each.same_function(line) && each.line != line.line;
      });
      if (same == other.created.native.end() || same == other.created.native.begin()) continue;
      if (!std::prev(same)->same_function(called)) continue;
      const std::string name = unqualified_name(called.function);
      const auto call = report::only_call(line.source, name), others = report::only_call(same->source, name);
      if (!call || !others || call->arguments.size() != others->arguments.size()) continue;
      std::vector<size_t> differ;
      for (size_t at = 0; at < call->arguments.size(); ++at)
        if (call->arguments[at] != others->arguments[at]) differ.push_back(at);
      if (differ.size() == 1) return with_argument(line, name, differ[0], others->arguments[differ[0]]);
    }
  }
  return std::nullopt;
}

// One allocation is where nobody had chosen a device, or where it had been chosen for something else.
std::optional<Cause> at_allocation(const Evidence& evidence) {
  const auto elsewhere = [&](const Operand& it) { return it.mismatched && it.device != evidence.current_device; };
  if (std::count_if(evidence.operands.begin(), evidence.operands.end(), elsewhere) != 1) return std::nullopt;
  const Operand& mismatched = *std::find_if(evidence.operands.begin(), evidence.operands.end(), elsewhere);
  const DeviceChoice& then = mismatched.created.choice;
  const auto own_line = [&](const Frame& frame) { return frame.project && !is_shared(frame, mismatched, evidence); };
  const auto line = std::ranges::find_if(mismatched.created.native, own_line);
  if (mismatched.on_cpu() || mismatched.created.native.empty() || !(then.by_default || !then.device.empty()))
    return std::nullopt;
  const std::string current = then.by_default ? "cuda:0" : then.device;
  if (const OwnerSaidBy* by = owner_said_by(mismatched.created.call); by && current != mismatched.device)
    return on_the_device_of(*by, mismatched, evidence);
  if (then.by_default) {
    const auto here = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                   [&](const Operand& it) { return it.device == evidence.current_device; });
    const bool said = here != evidence.operands.end() && here->created.choice.device == evidence.current_device;
    const auto& native = mismatched.created.native;
    const auto chosen_as = [&](const DeviceChoice& choice, const Frame* otherwise) {
      return choose_before(native, {evidence.current_device, choice, &then}, otherwise, own_line);
    };
    Cause cause{
        "missing-set-device", Confidence::high,
        fmt::format("{} is there because its thread had chosen no device: that is the first one. The kernel runs on "
                    "{}{}.",
                    with_allocation(mismatched), evidence.current_device, chosen_where(evidence.choice)),
        std::nullopt};
    if (line == native.end()) return cause;
    if (said) cause.fix = repairing(chosen_as(here->created.choice, nullptr));
    if (!cause.fix) cause.fix = repairing(chosen_as(evidence.choice, &*line));
    return cause;
  }
  const Frame* launch = innermost_own(evidence.native);
  Cause cause{
      "memory-of-another-device", Confidence::medium,
      fmt::format("{} was allocated while {} was current{}; the kernel runs on {}{}. Without access to its peer "
                  "the kernel cannot read it.",
                  with_allocation(mismatched), then.device, chosen_where(then), evidence.current_device,
                  chosen_where(evidence.choice)),
      std::nullopt};
  if (auto fix = as_the_others(mismatched, evidence))
    cause.fix = repairing(std::move(fix));
  else if (launch)
    cause.fix = peer_access_before(*launch, mismatched);
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
