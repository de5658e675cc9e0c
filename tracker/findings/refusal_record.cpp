#include "tracker/findings/refusal_record.h"

#include <algorithm>
#include <set>

#include "report/base/format.h"
#include "tracker/base/options.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/operation.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"

namespace devtrace::findings {
namespace {

using evidence::Frame;
using findings::refusal_messages::RefusalMessage;
using namespace log::record_fields;

const char kAten[] = "aten::";
constexpr size_t kMostFrames = 128;

Json operand_json(const evidence::Operand& operand, const std::string& library, const SourceText& source) {
  Json record;
  add(record, "name", operand.name);
  Json names = Json::array();
  for (const evidence::Name& name : operand.names) names.push_back({{"frame", name.frame}, {"name", name.name}});
  if (!names.empty()) record["names"] = std::move(names);
  add(record, "role", operand.role);
  if (operand.odd) record["odd"] = true;
  add(record, "expression", operand.expression);
  record["device"] = operand.tensor.device;
  if (operand.tensor.object) {
    record["dtype"] = operand.tensor.dtype;
    record["shape"] = operand.tensor.shape;
    record["bytes"] = operand.tensor.bytes;
  }
  if (operand.tensor.address) record["address"] = fmt::format("{:#x}", operand.tensor.address);
  add(record, "module_path", operand.module_path);
  add(record, "module_class", operand.module_class);
  add(record, "root_class", operand.root_class);
  add(record, "hook", operand.hook);
  add(record, "device_map", operand.device_map);
  if (operand.tensor.requires_grad) record["requires_grad"] = true;
  if (operand.tensor.is_parameter) record["is_parameter"] = true;
  add_provenance(record, operand.tensor.storage, library, source);
  return record;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

struct Gathered {
  Json python = Json::array();
  Json operands = Json::array();
  Json history = Json::object();             // `device_changes`, if there were any
  std::vector<std::string> operand_devices;  // in order
  std::set<std::string> mentioned_devices;   // of all tensors that the failing expression mentions
  std::string operation;
  std::string overload;
};

void gather_python(const events::Refused& refusal, const RefusalMessage& message, const Native& native, Gathered& out) {
  const python::Api* api = python::api();
  if (!api) return;
  const python::Gil gil(*api);
  const evidence::Torch torch(*api);
  const evidence::SourceReader sources(*api);
  const std::vector<Frame> frames = evidence::frames(*api, kMostFrames, sources);
  const std::string library = evidence::standard_library(*api);
  const SourceText source{[&](const std::string& file, int line) { return sources.lines(file, line); },
                          [&](const std::string& file, int line) { return sources.around(file, line); }};
  out.python = python_json(frames);
  add_device_changes(out.history, library, source);
  if (!torch.imported()) return;
  evidence::Wanted wanted;
  if (refusal.odd.known()) {
    wanted.odd_data = reinterpret_cast<uintptr_t>(refusal.odd_data);
    wanted.odd_device = refusal.odd.name();
  }
  wanted.devices_named = message.devices_named;
  wanted.devices_of_operands = message.devices_of_operands;
  wanted.direct = !native.autograd;
  const evidence::Operands operands = evidence::operands(*api, torch, frames, wanted);
  out.mentioned_devices = operands.mentioned;
  for (const evidence::Operand& operand : operands.list) {
    out.operands.push_back(operand_json(operand, library, source));
    out.operand_devices.push_back(operand.tensor.device);
  }
  if (native.operation.empty()) {
    out.operation = evidence::jitted_kernel(*api, frames);
    return;
  }
  std::tie(out.operation, out.overload) = evidence::schema_name(*api, native.operation);
  out.operation.insert(0, kAten);
}

// Whether operands on different devices can be what an error is about that only speaks of devices.
bool mixes_devices(const RefusalMessage& message, const Gathered& gathered) {
  std::set<std::string> devices = gathered.mentioned_devices;
  devices.insert(gathered.operand_devices.begin(), gathered.operand_devices.end());
  if (message.lacks_kernel) return devices.contains("cpu") && devices.size() >= 2;
  if (devices.size() >= 2 || message.devices_of_operands.size() >= 2) return true;
  return devices.empty() && message.devices_named.size() >= 2;
}

}  // namespace

std::optional<Json> refusal_record(const events::Refused& refusal, const RefusalMessage& message) {
  const Native native = native_stack();
  Gathered gathered;
  if (!native.operation.empty()) gathered.operation = kAten + native.operation;
  gather_python(refusal, message, native, gathered);

  if (message.likelihood == findings::refusal_messages::Likelihood::possible && !mixes_devices(message, gathered))
    return std::nullopt;

  Json record = begin("refused-op");
  record["message"] = first_line(refusal.message);
  add(record, "operation", gathered.operation);
  add(record, "overload", gathered.overload);
  add(record, "method", refusal.method.empty() ? message.method : std::string(refusal.method));
  add(record, "argument", refusal.argument.empty() ? message.argument : std::string(refusal.argument));
  if (const int device = platform().current_device(); device >= 0)
    record["current_device"] = Device::cuda(device).name();
  Json devices = Json::array();
  for (const std::string& device : gathered.operand_devices) add_device(devices, device);
  for (const std::string& device : message.devices_of_operands) add_device(devices, device);
  add_device(devices, refusal.common.name());
  add_device(devices, refusal.odd.name());
  // "expected its indices to be on cpu": what a message names otherwise may be where nothing lies.
  if (devices.size() < 2)
    for (const std::string& device : message.devices_named) add_device(devices, device);
  record["devices"] = std::move(devices);
  if (!gathered.operands.empty()) record["operands"] = std::move(gathered.operands);
  record.update(gathered.history);
  record["python"] = std::move(gathered.python);
  if (options().native) record["native"] = native_json(native.frames);
  return record;
}

}  // namespace devtrace::findings
