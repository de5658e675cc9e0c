#include "tracker/findings/launch_record.h"

#include <algorithm>

#include "binary/names.h"
#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/base/signature.h"
#include "tracker/base/options.h"
#include "tracker/evidence/objects/tensor_lookup.h"
#include "tracker/findings/policy.h"
#include "tracker/interface/platform.h"
#include "tracker/log/kernel_stub.h"
#include "tracker/log/native_frames.h"
#include "tracker/log/record_fields.h"
#include "tracker/memory/device_history.h"

namespace devtrace::findings {
namespace {

using namespace log::record_fields;
using Pointer = MisplacedLaunch::Pointer;

void add_tensor(Json& operand, const evidence::NamedTensor& tensor) {
  if (tensor.best) {
    operand["name"] = tensor.module_path.empty() ? tensor.best->name : tensor.module_path;
    operand["role"] = tensor.best->role;
  } else {
    operand["role"] = "temporary";  // only those that pass it on know it
  }
  Json names = Json::array();
  for (const auto& name : tensor.names) names.push_back({{"frame", name.frame}, {"name", name.name}});
  operand["names"] = std::move(names);
  add(operand, "module_path", tensor.module_path);
  add(operand, "array_of", tensor.tensor.array_of);
  if (tensor.tensor.pooled) operand["pool"] = "cupy";
  if (tensor.tensor.address_only) return;
  add(operand, "dtype", tensor.tensor.dtype);
  operand["shape"] = tensor.tensor.shape;
  operand["bytes"] = tensor.tensor.bytes;
  if (tensor.tensor.is_parameter) operand["is_parameter"] = true;
}

// What C++ says of the kernel's parameters: their types by its signature, their names by its declaration, and what the
// launching line gives for them.
struct CppParameters {
  std::vector<std::string> types, names, arguments;

  void add_to(Json& operand, size_t parameter) const {
    const auto at = [&](const std::vector<std::string>& all) { return parameter < all.size() ? all[parameter] : ""; };
    add(operand, "type", at(types));
    add(operand, "parameter_name", at(names));
    if (!operand.contains("name")) add(operand, "name", at(arguments));
  }
};

std::vector<std::string> copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

// The kernel's declaration: what nvcc made of it for the host stands at its place in the source.
std::vector<std::string> declared_names(const events::Launch& launch, const std::vector<stacks::NativeFrame>& frames,
                                        const std::string& kernel, const SourceText& source) {
  std::vector<std::string> names;
  const auto on_stack = log::kernel_stub(frames, kernel);
  const auto stub = on_stack ? std::optional(frames[*on_stack]) : log::kernel_stub_at(launch.function, kernel);
  if (!stub || stub->line <= 0) return names;
  const std::string text = cpp_statement(source, log::source_file(*stub), stub->line);
  const auto declaration = report::only_call(text, report::unqualified_name(kernel));
  if (!declaration) return names;
  for (const std::string_view each : declaration->arguments) names.emplace_back(report::name_of_parameter(each));
  return names;
}

CppParameters cpp_parameters(const MisplacedLaunch& misplaced, const std::string& kernel, const Native& native,
                             const Json& native_frames, const SourceText& source) {
  const size_t count = misplaced.launch.kernel->parameters.size();
  CppParameters found;
  found.types = copies(report::parameter_types(kernel));
  found.names = declared_names(misplaced.launch, native.frames, kernel, source);
  const Json& caller = report::native_user_frame(native_frames);
  const auto call = report::only_call(report::string(caller, "source"), report::unqualified_name(kernel));
  if (call && !call->configuration.empty()) found.arguments = copies(call->arguments);
  // A count that differs (default arguments, a pack) leaves no telling which is which.
  for (auto* each : {&found.types, &found.names, &found.arguments})
    if (each->size() != count) each->clear();
  return found;
}

// One operand for each pointer: the tensor that a Python frame holds there, and where its memory came from.
Json operands(const MisplacedLaunch& misplaced, const std::vector<stacks::PythonFrame>& frames,
              const CppParameters& parameters, const SourceText& source) {
  std::vector<uintptr_t> addresses;
  for (const Pointer& pointer : misplaced.pointers) addresses.push_back(pointer.address);
  std::vector<bool> own;
  for (const stacks::PythonFrame& frame : frames) own.push_back(evidence::is_project_file(frame.file, ""));
  const auto tensors = evidence::tensors_at(addresses, frames, own);
  Json list = Json::array();
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Pointer& pointer = misplaced.pointers[i];
    Json operand{{"role", "parameter"}, {"device", pointer.device.name()}};
    if (tensors[i]) add_tensor(operand, *tensors[i]);
    operand["parameter"] = pointer.parameter;
    if (frames.empty()) parameters.add_to(operand, pointer.parameter);
    if (!tensors[i]) add_extent(operand, pointer.address);
    operand["address"] = fmt::format("{:#x}", pointer.address);
    if (pointer.device != misplaced.device) operand["odd"] = true;
    add_provenance(operand, pointer.address, "", source);
    list.push_back(std::move(operand));
  }
  return list;
}

Json device_choice(const SourceText& source) {
  const auto choice = memory::device_history::last();
  if (!choice && !memory::device_history::seen_from_start()) return nullptr;
  if (!choice) return {{"by_default", true}};
  Json record{{"time", static_cast<double>(choice->time) * 1e-9}};
  if (choice->device >= 0) record["device"] = Device::cuda(choice->device).name();
  add_stack(record, choice->stack, "", source);
  return record;
}

findings::policy::Decision decision(const MisplacedLaunch& misplaced, std::string_view kernel, const Native& native) {
  std::vector<Device> owners;
  for (const Pointer& pointer : misplaced.pointers) owners.push_back(pointer.device);
  return findings::policy::on_remote_access({misplaced.launch.kernel->name, kernel, native.frames}, misplaced.device,
                                            owners);
}

// What every record of a launch has, whatever is wrong with it.
void add_launch(Json& record, const MisplacedLaunch& misplaced, const std::string& kernel, const Native& native) {
  record["operation"] = native.operation.empty() ? binary::short_kernel_name(kernel) : "aten::" + native.operation;
  record["current_device"] = misplaced.device.name();
  const SourceText source = source_from_disk();
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(stacks::capture_python());
  if (Json choice = device_choice(source); !choice.is_null()) record["device_choice"] = std::move(choice);
  add_device_changes(record, device_changes(), "", source);
  Json native_frames = native_json(native.frames, source, kernel);
  record["operands"] =
      operands(misplaced, frames, cpp_parameters(misplaced, kernel, native, native_frames, source), source);
  record["python"] = python_json(frames, "", source);
  if (options().native) record["native"] = std::move(native_frames);
  const auto& grid = misplaced.launch.grid;
  const auto& block = misplaced.launch.block_shape;
  record["launch"] = {{"kernel", kernel},
                      {"grid", {grid[0], grid[1], grid[2]}},
                      {"block", {block[0], block[1], block[2]}},
                      {"stream", fmt::format("{:#x}", reinterpret_cast<uintptr_t>(misplaced.launch.stream))}};
  if (misplaced.launch.graph || platform().capturing(misplaced.launch.stream)) record["launch"]["graph"] = true;
}

// The stream stands before the memory: it is what CUDA refused.
Json with_stream(const MisplacedLaunch& misplaced, const Json& record, const std::string& kernel) {
  const Json& line = report::native_user_frame(report::array(record, "native"));
  const std::string_view written =
      report::stream_of_launch(report::string(line, "source"), report::unqualified_name(kernel));
  Json all = Json::array();
  Json stream{{"name", written.empty() ? "the stream" : std::string(written)},
              {"role", "stream"},
              {"device", Device::cuda(misplaced.launch.stream_device).name()},
              {"odd", true}};
  add_handle_creation(stream, reinterpret_cast<uintptr_t>(misplaced.launch.stream), source_from_disk());
  all.push_back(std::move(stream));
  for (Json operand : record["operands"]) {
    operand.erase("odd");
    all.push_back(std::move(operand));
  }
  return all;
}

// CUDA has refused the launch for its stream. Nothing where it has been told that the launch's memory is elsewhere: one
// launch is one finding.
std::optional<Json> refused_record(const MisplacedLaunch& misplaced) {
  const std::string kernel = binary::demangled(misplaced.launch.kernel->name);
  const Native native = native_stack();
  const auto elsewhere = [&](const Pointer& p) { return p.device != misplaced.device; };
  if (std::any_of(misplaced.pointers.begin(), misplaced.pointers.end(), elsewhere) &&
      decision(misplaced, kernel, native).verdict == findings::policy::Verdict::finding)
    return std::nullopt;
  const std::string of_stream = Device::cuda(misplaced.launch.stream_device).name();
  Json record = begin("wrong-current-device");
  record["message"] = fmt::format("{} was launched on a stream of {} while {} was current, which CUDA refuses",
                                  binary::short_kernel_name(kernel), of_stream, misplaced.device.name());
  record["argument"] = "stream";
  Json devices = Json::array();
  add_device(devices, misplaced.device.name());
  add_device(devices, of_stream);
  record["devices"] = std::move(devices);
  add_launch(record, misplaced, kernel, native);
  record["launch"]["stream_device"] = of_stream;
  record["operands"] = with_stream(misplaced, record, kernel);
  return record;
}

}  // namespace

std::optional<report::Json> launch_record(const MisplacedLaunch& misplaced) {
  if (misplaced.launch.stream_device >= 0) return refused_record(misplaced);
  const auto& pointers = misplaced.pointers;
  const Device first = pointers.front().device;
  // Nothing of the launch lies where it runs, and all of it in one other place: the place it runs is the mistake.
  const bool all_there =
      std::all_of(pointers.begin(), pointers.end(), [&](const Pointer& p) { return p.device == first; });
  const bool host = std::any_of(pointers.begin(), pointers.end(), [](const Pointer& p) { return p.device.is_cpu(); });
  Json record = begin(host ? "host-access" : all_there ? "wrong-current-device" : "remote-access");
  const std::string kernel = binary::demangled(misplaced.launch.kernel->name);
  const Native native = native_stack();
  const findings::policy::Decision allowed = decision(misplaced, kernel, native);
  if (allowed.verdict == findings::policy::Verdict::excused) return std::nullopt;
  if (allowed.verdict == findings::policy::Verdict::note) {
    record["severity"] = "note";
    record["note"] = allowed.reason;
  }
  const auto odd = std::find_if(pointers.begin(), pointers.end(), [&](const Pointer& p) {
    return host ? p.device.is_cpu() : p.device != misplaced.device;
  });
  record["message"] = host ? fmt::format("{} runs on {} and was given memory of the host, which it cannot reach",
                                         binary::short_kernel_name(kernel), misplaced.device.name())
                      : all_there
                          ? fmt::format("{} runs on {}, and all its memory is on {}", binary::short_kernel_name(kernel),
                                        misplaced.device.name(), first.name())
                          : fmt::format("{} runs on {} and was given memory of {}", binary::short_kernel_name(kernel),
                                        misplaced.device.name(), odd->device.name());
  record["argument"] = fmt::format("parameter {}", odd->parameter);
  Json devices = Json::array();
  add_device(devices, misplaced.device.name());
  for (const Pointer& pointer : pointers) add_device(devices, pointer.device.name());
  record["devices"] = std::move(devices);
  add_launch(record, misplaced, kernel, native);
  record["launch"]["parameter"] = odd->parameter;
  record["launch"]["offset"] = odd->in_parameter;
  return record;
}

}  // namespace devtrace::findings
