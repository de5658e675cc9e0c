// C++ programs: a launch, or an allocation, ran on the device that was current, and nothing had made the right one
// current.
#include <algorithm>
#include <iterator>
#include <vector>

#include "common/format.h"
#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/cpp/memory.h"
#include "report/verdict/cpp/origin.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

MemoryUser kernel_of(const Evidence& evidence) {
  return {evidence.current_device, evidence.choice,
          fmt::format("The kernel runs on {}{}.", evidence.current_device, chosen_where(evidence.choice)), "kernel"};
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
  auto fix = opened_to_user(memory, kernel_of(evidence));
  if (!fix)
    fix = by->call == "cuMemMap" ? with_access(*launch, evidence, memory) : with_stream_of(*launch, evidence, memory);
  if (!fix) return std::nullopt;
  Cause cause{"memory-of-another-device", Confidence::high,
              fmt::format("{} is there because {} says so, whichever device is current. {} Other devices reach such "
                          "memory after {} alone.",
                          with_allocation(memory), by->what, kernel_of(evidence).where, by->opened_by),
              repairing(std::move(fix))};
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

// One allocation is where nobody had chosen a device, or where it had been chosen for something else.
std::optional<Cause> at_allocation(const Evidence& evidence) {
  const auto elsewhere = [&](const Operand& it) { return it.mismatched && it.device != evidence.current_device; };
  if (std::count_if(evidence.operands.begin(), evidence.operands.end(), elsewhere) != 1) return std::nullopt;
  return memory_elsewhere(evidence, *std::find_if(evidence.operands.begin(), evidence.operands.end(), elsewhere),
                          kernel_of(evidence));
}

}  // namespace

std::optional<Cause> missing_set_device(const Evidence& evidence) {
  if (!evidence.in_cpp() || evidence.operands.empty() || evidence.current_device.empty()) return std::nullopt;
  if (evidence.kind == "wrong-current-device") return at_launch(evidence);
  if (evidence.kind == "remote-access") return at_allocation(evidence);
  return std::nullopt;
}

}  // namespace devtrace::report::verdict::rules
