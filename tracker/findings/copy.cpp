// A copy whose ends do not lie where its caller says.
#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "tracker/base/options.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/findings/findings.h"
#include "tracker/findings/reporting.h"

namespace devtrace::findings {
namespace {

using events::Direction;
using evidence::SourceText;
using finding::Finding;
using memory::Declared;

const char* direction_name(Direction direction) {
  switch (direction) {
    case Direction::host_to_host:
      return "host to host";
    case Direction::host_to_device:
      return "host to device";
    case Direction::device_to_host:
      return "device to host";
    case Direction::device_to_device:
      return "device to device";
    case Direction::undeclared:
      break;
  }
  return "";
}

struct Side {
  const char* role;
  const MisplacedCopy::End& end;
};

// "its destination is on cuda:1 and not on the host"
std::string contradiction(const Side& side) {
  if (side.end.runs_into.known())
    return fmt::format("its {} on {} runs on into memory of {}", side.role, side.end.owner.name(),
                       side.end.runs_into.name());
  const memory::CopyEnd& end = side.end.end;
  const std::string said = end.declared == Declared::this_device ? end.declared_device.name()
                           : end.declared == Declared::host      ? "the host"
                                                                 : "a device";
  return fmt::format("its {} is on {} and not on {}", side.role,
                     side.end.owner == Device::cpu() ? "the host" : side.end.owner.name(), said);
}

std::string message(const events::Copy& copy, const Side& to, const Side& from) {
  std::string text = copy.function;
  if (const std::string direction = direction_name(copy.direction); !direction.empty())
    text += " from " + direction;
  else if (to.end.end.declared == Declared::this_device && from.end.end.declared == Declared::this_device)
    text += fmt::format(" from {} to {}", from.end.end.declared_device.name(), to.end.end.declared_device.name());
  text += ": ";
  if (to.end.wrong) text += contradiction(to);
  if (to.end.wrong && from.end.wrong) text += ", and ";
  if (from.end.wrong) text += contradiction(from);
  return text;
}

// How the calling line writes the two ends: CUDA's copies take the destination first. Of a copy between two devices
// each pointer is followed by its device.
std::string written(const events::Copy& copy, const finding::Stack& callers, bool source) {
  const std::string_view function = copy.function;
  const bool peer = function.starts_with("cudaMemcpyPeer");
  if (!peer && !function.starts_with("cudaMemcpy")) return {};
  if (function.find("2D") != function.npos || function.find("3D") != function.npos ||
      function.find("Symbol") != function.npos || function.find("Array") != function.npos)
    return {};
  const finding::Frame* const frame = finding::native_user_frame(callers);
  const auto call = frame ? report::only_call(frame->source, function) : std::nullopt;
  const size_t at = source ? (peer ? 2 : 1) : 0;
  return call && at < call->arguments.size() ? std::string(call->arguments[at]) : std::string();
}

finding::Operand operand(const Side& side, const std::string& text, const SourceText& source) {
  finding::Operand operand;
  operand.name = text.empty() ? fmt::format("the {}", side.role) : text;
  operand.role = side.role;
  if (side.end.owner.known()) operand.device = side.end.owner.name();
  if (side.end.end.address != 0) operand.address = fmt::format("{:#x}", side.end.end.address);
  operand.mismatched = side.end.wrong;
  add_memory(operand, side.end.end.address, source);
  return operand;
}

finding::DeclaredCopy declared(const events::Copy& copy) {
  finding::DeclaredCopy out;
  out.function = copy.function;
  out.direction = direction_name(copy.direction);
  if (copy.to_device >= 0) out.destination = Device::cuda(copy.to_device).name();
  if (copy.from_device >= 0) out.source = Device::cuda(copy.from_device).name();
  out.bytes = copy.bytes;
  if (copy.stream) out.stream = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(copy.stream));
  return out;
}

// Takes no GIL: a copy may come while a lock is held for which the GIL's owner waits. Holds no lock.
Finding finding_of(const MisplacedCopy& misplaced) {
  const events::Copy& copy = misplaced.copy;
  const Side to{"destination", misplaced.to};
  const Side from{"source", misplaced.from};
  std::vector<std::string> devices;
  for (const Side* side : {&from, &to})
    for (const Device& owner : {side->end.owner, side->end.runs_into}) devices.push_back(owner.name());
  for (const Side* side : {&from, &to}) devices.push_back(side->end.end.declared_device.name());
  Finding finding = begin("copy-mismatch", finding::Copy{declared(copy)}, devices);
  finding.message = message(copy, to, from);
  finding.operation = copy.function;
  finding.argument = to.end.wrong && from.end.wrong ? "source and destination" : to.end.wrong ? to.role : from.role;
  const SourceText source = evidence::source_from_disk();
  finding.device_changes = evidence::device_changes(evidence::capture_device_changes(), source);
  finding.stack = evidence::python_stack(stacks::resolve(stacks::capture_python()), source);
  finding::Stack native = evidence::native_stack(evidence::capture_native_stack().frames, source);
  const finding::Stack& callers = finding.stack.empty() ? native : finding.stack;
  finding.operands = {operand(from, written(copy, callers, true), source),
                      operand(to, written(copy, callers, false), source)};
  if (options().native) finding.native = std::move(native);
  return finding;
}

void report_copy(const MisplacedCopy& copy) {
  std::string ends =
      fmt::format("{} {} {}", static_cast<int>(copy.copy.direction), copy.copy.to_device, copy.copy.from_device);
  for (const MisplacedCopy::End* end : {&copy.to, &copy.from})
    ends += fmt::format(" {}:{}:{}", end->owner.index, end->runs_into.index, end->wrong);
  report_once({copy.copy.function, ends}, [&]() -> std::optional<Finding> { return finding_of(copy); });
}

}  // namespace

void report(const MisplacedCopy& copy) {
  run([&] { report_copy(copy); });
}

}  // namespace devtrace::findings
