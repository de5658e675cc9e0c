#include "tracker/finding_record.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <set>

#include "tracker/current_thread.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/operation.h"
#include "tracker/options.h"
#include "tracker/process_start.h"
#include "tracker/provenance.h"
#include "tracker/runtime.h"
#include "tracker/stacks.h"

namespace devtrace {
namespace {

using evidence::Frame;
using report::Json;

const char kAten[] = "aten::";
constexpr size_t kMostFrames = 128;
constexpr size_t kMostNativeFrames = 128;

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

void add(Json& record, const char* key, std::string value) {
  if (!value.empty()) record[key] = std::move(value);
}

Json python_json(const std::vector<Frame>& frames) {
  Json list = Json::array();
  for (const Frame& frame : frames) {
    Json entry{{"file", frame.file}, {"line", frame.region.line}, {"function", frame.function}};
    if (options().source) add(entry, "source", frame.source);
    if (frame.project) entry["project"] = true;
    list.push_back(std::move(entry));
  }
  return list;
}

Json native_json(const std::vector<stacks::NativeFrame>& frames) {
  Json list = Json::array();
  for (const stacks::NativeFrame& frame : frames) {
    Json entry = Json::object();
    add(entry, "module", frame.module);
    add(entry, "function", frame.function);
    entry["offset"] = fmt::format("{:#x}", frame.offset);
    add(entry, "file", frame.file);
    if (frame.line > 0) entry["line"] = frame.line;
    list.push_back(std::move(entry));
  }
  return list;
}

// Frames of an earlier place: which of them are the user's own is told by the same rule; sources are read while they
// are at hand.
Json origin_json(const provenance::Origin& origin, const std::string& library, const evidence::SourceReader& sources) {
  Json record;
  record["time"] = static_cast<double>(origin.time) * 1e-9;
  record["thread"] = origin.thread;
  Json list = Json::array();
  for (const stacks::PythonFrame& frame : stacks::resolve(origin.stack)) {
    Json entry{{"file", frame.file}, {"line", frame.line}, {"function", frame.function}};
    if (options().source) add(entry, "source", sources.lines(frame.file, frame.line));
    if (evidence::is_project_file(frame.file, library)) entry["project"] = true;
    list.push_back(std::move(entry));
  }
  record["python"] = std::move(list);
  return record;
}

void add_provenance(Json& operand, uintptr_t storage, const std::string& library,
                    const evidence::SourceReader& sources) {
  const auto block = storage ? provenance::find(storage) : std::nullopt;
  if (!block) return;
  if (!block->moved_from.known()) {
    operand["created"] = origin_json(block->allocated, library, sources);
    operand["created"]["device"] = block->allocated.device.name();
    return;
  }
  if (block->created.time != 0) {
    operand["created"] = origin_json(block->created, library, sources);
    operand["created"]["device"] = block->created.device.name();
  }
  operand["moved"] = origin_json(block->allocated, library, sources);
  operand["moved"]["from"] = block->moved_from.name();
  operand["moved"]["to"] = block->allocated.device.name();
}

Json operand_json(const evidence::Operand& operand, const std::string& library, const evidence::SourceReader& sources) {
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
  if (operand.tensor.requires_grad) record["requires_grad"] = true;
  if (operand.tensor.is_parameter) record["is_parameter"] = true;
  add_provenance(record, operand.tensor.storage, library, sources);
  return record;
}

void add_device(Json& devices, const std::string& name) {
  if (name == "cuda" || name.empty() || name == "unknown") return;
  if (std::find(devices.begin(), devices.end(), Json(name)) == devices.end()) devices.push_back(name);
}

struct Native {
  std::vector<stacks::NativeFrame> frames;
  std::string operation;  // `at::_ops::index_select` gives index_select
  bool autograd = false;  // the engine runs it: no Python expression asked for this operation
};

// Where this library itself is mapped; 0 when the loader does not say.
uintptr_t own_base() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&own_base), &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}

bool evaluates_python(const stacks::NativeFrame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrame");
}

Native native_stack() {
  Native native;
  void* addresses[kMostNativeFrames];
  const size_t count = stacks::capture_native(addresses, kMostNativeFrames);
  native.frames = stacks::symbolize(addresses, count, true);
  // Our hooks stand in PyTorch's stack under PyTorch's names.
  std::erase_if(native.frames, [own = own_base()](const auto& frame) { return frame.address - frame.offset == own; });
  // What is further out than Python's evaluation has called that Python, and Python asked for what was refused.
  for (const stacks::NativeFrame& frame : native.frames) {
    if (evaluates_python(frame)) break;
    if (native.operation.empty()) native.operation = evidence::operation_of(frame.function);
    native.autograd = native.autograd || frame.function.starts_with("torch::autograd::Engine::");
  }
  return native;
}

struct Gathered {
  Json python = Json::array();
  Json operands = Json::array();
  std::vector<std::string> operand_devices;  // in order
  std::set<std::string> mentioned_devices;   // of all tensors that the failing expression mentions
  std::string operation;
  std::string overload;
};

void gather_python(const events::Refused& refusal, const Native& native, Gathered& out) {
  const python::Api* api = python::api();
  if (!api) return;
  const python::Gil gil(*api);
  const python::Torch torch(*api);
  const evidence::SourceReader sources(*api);
  const std::vector<Frame> frames = evidence::frames(*api, kMostFrames, sources);
  const std::string library = evidence::standard_library(*api);
  out.python = python_json(frames);
  if (!torch.imported()) return;
  evidence::Wanted wanted;
  if (refusal.odd.known()) {
    wanted.odd_data = reinterpret_cast<uintptr_t>(refusal.odd_data);
    wanted.odd_device = refusal.odd.name();
  }
  wanted.devices_named = refusals::devices_named(refusal.message);
  wanted.devices_of_operands = refusals::devices_of_operands(refusal.message);
  wanted.direct = !native.autograd;
  const evidence::Operands operands = evidence::operands(*api, torch, frames, wanted);
  out.mentioned_devices = operands.mentioned;
  for (const evidence::Operand& operand : operands.list) {
    out.operands.push_back(operand_json(operand, library, sources));
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
bool mixes_devices(std::string_view message, const Gathered& gathered) {
  std::set<std::string> devices = gathered.mentioned_devices;
  devices.insert(gathered.operand_devices.begin(), gathered.operand_devices.end());
  if (refusals::lacks_kernel(message)) return devices.contains("cpu") && devices.size() >= 2;
  if (devices.size() >= 2 || refusals::devices_of_operands(message).size() >= 2) return true;
  return devices.empty() && refusals::devices_named(message).size() >= 2;
}

std::string thread_name() {
  char name[17] = {};
  return ::prctl(PR_GET_NAME, name, 0, 0, 0) == 0 ? name : "";
}

}  // namespace

std::optional<Json> finding_record(const events::Refused& refusal, refusals::Likelihood likelihood) {
  const std::vector<std::string> named = refusals::devices_named(refusal.message);
  const refusals::Checked checked = refusals::checked_argument(refusal.message);
  const Native native = native_stack();
  Gathered gathered;
  if (!native.operation.empty()) gathered.operation = kAten + native.operation;
  gather_python(refusal, native, gathered);

  if (likelihood == refusals::Likelihood::possible && !mixes_devices(refusal.message, gathered)) return std::nullopt;

  Json record;
  record["record"] = "finding";
  record["kind"] = "refused-op";
  record["time"] = process_start::now();
  record["thread"] = current_thread::id();
  add(record, "thread_name", thread_name());
  record["message"] = first_line(refusal.message);
  add(record, "operation", gathered.operation);
  add(record, "overload", gathered.overload);
  add(record, "method", refusal.method.empty() ? checked.method : std::string(refusal.method));
  add(record, "argument", refusal.argument.empty() ? checked.argument : std::string(refusal.argument));
  if (const int device = runtime().current_device(); device >= 0)
    record["current_device"] = Device::cuda(device).name();
  Json devices = Json::array();
  for (const std::string& device : gathered.operand_devices) add_device(devices, device);
  for (const std::string& device : refusals::devices_of_operands(refusal.message)) add_device(devices, device);
  add_device(devices, refusal.common.name());
  add_device(devices, refusal.odd.name());
  // "expected its indices to be on cpu": what a message names otherwise may be where nothing lies.
  if (devices.size() < 2)
    for (const std::string& device : named) add_device(devices, device);
  record["devices"] = std::move(devices);
  if (!gathered.operands.empty()) record["operands"] = std::move(gathered.operands);
  record["python"] = std::move(gathered.python);
  if (options().native) record["native"] = native_json(native.frames);
  return record;
}

}  // namespace devtrace
