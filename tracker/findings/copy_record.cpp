#include "tracker/findings/copy_record.h"

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "tracker/base/options.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"

namespace devtrace::findings {
namespace {

using namespace log::record_fields;
using events::Direction;
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
std::string written(const events::Copy& copy, const Json& native, bool source) {
  const std::string_view function = copy.function;
  const bool peer = function.starts_with("cudaMemcpyPeer");
  if (!peer && !function.starts_with("cudaMemcpy")) return {};
  if (function.find("2D") != function.npos || function.find("3D") != function.npos ||
      function.find("Symbol") != function.npos || function.find("Array") != function.npos)
    return {};
  const auto call = report::only_call(report::string(report::native_user_frame(native), "source"), function);
  const size_t at = source ? (peer ? 2 : 1) : 0;
  return call && at < call->arguments.size() ? std::string(call->arguments[at]) : std::string();
}

Json operand(const Side& side, const std::string& text, const SourceText& source) {
  Json operand{{"name", text.empty() ? fmt::format("the {}", side.role) : text}, {"role", side.role}};
  if (side.end.owner.known()) operand["device"] = side.end.owner.name();
  if (side.end.end.address != 0) operand["address"] = fmt::format("{:#x}", side.end.end.address);
  if (side.end.wrong) operand["odd"] = true;
  add_extent(operand, side.end.end.address);
  add_provenance(operand, side.end.end.address, "", source);
  return operand;
}

Json declared_json(const events::Copy& copy) {
  Json json{{"function", copy.function}};
  add(json, "direction", direction_name(copy.direction));
  if (copy.to_device >= 0) json["destination"] = Device::cuda(copy.to_device).name();
  if (copy.from_device >= 0) json["source"] = Device::cuda(copy.from_device).name();
  json["bytes"] = copy.bytes;
  if (copy.stream) json["stream"] = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(copy.stream));
  return json;
}

}  // namespace

report::Json copy_record(const MisplacedCopy& misplaced) {
  const events::Copy& copy = misplaced.copy;
  const Side to{"destination", misplaced.to};
  const Side from{"source", misplaced.from};
  Json record = begin("copy-mismatch");
  const Native native = native_stack();
  record["message"] = message(copy, to, from);
  record["operation"] = copy.function;
  record["argument"] = to.end.wrong && from.end.wrong ? "source and destination" : to.end.wrong ? to.role : from.role;
  if (const int device = platform().current_device(); device >= 0)
    record["current_device"] = Device::cuda(device).name();
  Json devices = Json::array();
  for (const Side* side : {&from, &to}) {
    add_device(devices, side->end.owner.name());
    add_device(devices, side->end.runs_into.name());
  }
  for (const Side* side : {&from, &to}) add_device(devices, side->end.end.declared_device.name());
  record["devices"] = std::move(devices);
  const SourceText source = source_from_disk();
  add_device_changes(record, device_changes(), "", source);
  Json native_frames = native_json(native.frames, source);
  record["python"] = python_json(stacks::resolve(stacks::capture_python()), "", source);
  const Json& callers = record["python"].empty() ? native_frames : record["python"];
  record["operands"] = {operand(from, written(copy, callers, true), source),
                        operand(to, written(copy, callers, false), source)};
  if (options().native) record["native"] = std::move(native_frames);
  record["copy"] = declared_json(copy);
  return record;
}

}  // namespace devtrace::findings
