// A launch that was given another device's memory, or that CUDA refused for its stream.
#include <algorithm>

#include "binary/names.h"
#include "common/format.h"
#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/signature.h"
#include "tracker/base/options.h"
#include "tracker/evidence/objects/tensor_lookup.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/findings/findings.h"
#include "tracker/findings/kernel_parameters.h"
#include "tracker/findings/policy.h"
#include "tracker/findings/reporting.h"
#include "tracker/interface/platform.h"
#include "tracker/memory/peer_access.h"

namespace devtrace::findings {
namespace {

using evidence::NativeStack;
using evidence::SourceText;
using finding::Finding;
using Pointer = MisplacedLaunch::Pointer;

void add_tensor(finding::Operand& operand, const evidence::NamedTensor& known) {
  const evidence::TensorMetadata& tensor = known.tensor;
  if (known.best) operand.name = known.module_path.empty() ? known.best->name : known.module_path;
  operand.role = known.best ? known.best->role : "temporary";  // only those that pass it on know it
  operand.names.known = true;
  for (const auto& name : known.names) operand.names.push_back({name.frame, name.name});
  operand.module_path = known.module_path;
  operand.array_of = tensor.array_of;
  if (tensor.pooled) operand.pool = "cupy";
  if (tensor.address_only) return;
  if (!tensor.dtype.empty()) operand.dtype = tensor.dtype;
  operand.shape = finding::List<int64_t>::all(tensor.shape);
  operand.bytes = tensor.bytes;
  operand.is_parameter = tensor.is_parameter;
}

// As the source calls it.
std::string variable_name(const char* symbol) {
  return std::string(report::unqualified_name(binary::demangled(symbol)));
}

// One operand for each pointer: the tensor that a Python frame holds there, and where its memory came from.
finding::List<finding::Operand> operands(const MisplacedLaunch& misplaced,
                                         const std::vector<stacks::PythonFrame>& frames,
                                         const CppParameters& parameters, const SourceText& source) {
  std::vector<uintptr_t> addresses;
  for (const Pointer& pointer : misplaced.pointers) addresses.push_back(pointer.address);
  std::vector<bool> own;
  for (const stacks::PythonFrame& frame : frames) own.push_back(evidence::is_project_file(frame.file, ""));
  const auto tensors = evidence::tensors_at(addresses, frames, own);
  finding::List<finding::Operand> list;
  list.known = true;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Pointer& pointer = misplaced.pointers[i];
    finding::Operand& operand = list.emplace_back();
    operand.role = "parameter";
    if (pointer.device.known()) operand.device = pointer.device.name();
    if (tensors[i]) add_tensor(operand, *tensors[i]);
    if (pointer.variable) {
      operand.role = "variable";
      operand.name = variable_name(pointer.variable);
    } else if (pointer.parameter == Pointer::kNoParameter) {
      operand.role = "address";
      operand.name = "an address that no parameter leads to";
    } else {
      operand.parameter = pointer.parameter;
      if (frames.empty()) parameters.add_to(operand, pointer.parameter, pointer.in_parameter);
      if (pointer.in_table) parameters.add_place(operand, pointer.in_memory);
    }
    operand.address = fmt::format("{:#x}", pointer.address);
    operand.mismatched = pointer.device != misplaced.device || (misplaced.access && i == misplaced.accessed);
    if (add_memory(operand, pointer.address, source)) operand.pool.clear();
    if (frames.empty()) add_reach(operand, misplaced.device, pointer.device, pointer.address, source);
    if (tensors[i]) operand.extent.reset();  // its own size says more than its block's
  }
  return list;
}

finding::KernelLaunch described(const events::Launch& launch, const std::string& kernel) {
  finding::KernelLaunch out;
  out.kernel = kernel;
  out.grid.assign(std::begin(launch.grid), std::end(launch.grid));
  out.block.assign(std::begin(launch.block_shape), std::end(launch.block_shape));
  out.stream = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(launch.stream));
  out.graph = launch.graph || platform().capturing(launch.stream);
  return out;
}

finding::KernelAccess described(const KernelAccess& access, const SourceText& source) {
  finding::KernelAccess out;
  out.instruction = access.instruction;
  out.writes = access.writes;
  out.address = fmt::format("{:#x}", access.address);
  if (access.bytes != 0) out.bytes = static_cast<int64_t>(access.bytes);
  out.block.assign(std::begin(access.block), std::end(access.block));
  out.thread.assign(std::begin(access.thread), std::end(access.thread));
  out.line.file = access.file;
  out.line.line = access.line;
  if (source.lines && access.line != 0) out.line.source = source.lines(out.line.file, static_cast<int>(access.line));
  out.whose = access.whose;
  if (access.variable) out.variable = variable_name(access.variable);
  if (access.in_memory >= 0) out.in_memory = access.in_memory;
  return out;
}

// The stream stands before the memory: it is what CUDA refused.
void add_stream(Finding& finding, const MisplacedLaunch& misplaced, const std::string& kernel) {
  for (finding::Operand& operand : finding.operands) operand.mismatched = false;
  const finding::Frame* const line = finding::native_user_frame(finding.native);
  const std::string_view written =
      line ? report::stream_of_launch(line->source, report::unqualified_name(kernel)) : std::string_view();
  finding::Operand& stream = *finding.operands.emplace(finding.operands.begin());
  stream.name = written.empty() ? "the stream" : std::string(written);
  stream.role = "stream";
  stream.device = Device::cuda(misplaced.launch.stream_device).name();
  stream.mismatched = true;
  stream.created =
      evidence::creation_of_handle(reinterpret_cast<uintptr_t>(misplaced.launch.stream), evidence::source_from_disk());
}

// What is wrong with a launch, before anything is gathered.
struct Fault {
  const char* kind;
  std::string message, argument;
  std::vector<std::string> devices;     // where it runs is the first
  const Pointer* mismatched = nullptr;  // nothing: CUDA refused its stream
};

Fault fault_of_stream(const MisplacedLaunch& misplaced, const std::string& kernel) {
  const std::string here = misplaced.device.name(), stream = Device::cuda(misplaced.launch.stream_device).name();
  return {
      "wrong-current-device",
      fmt::format("{} was launched on a stream of {} while {} was current, which CUDA refuses", kernel, stream, here),
      "stream",
      {here, stream}};
}

std::string argument_of(const Pointer& pointer) {
  if (pointer.variable) return fmt::format("variable {}", variable_name(pointer.variable));
  return pointer.parameter == Pointer::kNoParameter ? "address" : fmt::format("parameter {}", pointer.parameter);
}

Fault fault_of_memory(const MisplacedLaunch& misplaced, const std::string& kernel) {
  const auto& pointers = misplaced.pointers;
  const std::string here = misplaced.device.name();
  const auto on_host = [](const Pointer& p) { return p.device.is_cpu(); };
  const auto elsewhere = [&](const Pointer& p) { return p.device != misplaced.device; };
  const bool host = std::ranges::any_of(pointers, on_host);
  const Pointer& first = *(host ? std::ranges::find_if(pointers, on_host) : std::ranges::find_if(pointers, elsewhere));
  const std::string there = first.device.name();
  // Nothing of the launch lies where it runs, and all of it in one other place: the place it runs is the mistake.
  const bool all_there = std::ranges::all_of(pointers, [&](const Pointer& p) { return p.device == first.device; });
  Fault fault{host        ? "host-access"
              : all_there ? "wrong-current-device"
                          : "remote-access",
              host ? fmt::format("{} runs on {} and was given memory of the host, which it cannot reach", kernel, here)
              : all_there ? fmt::format("{} runs on {}, and all its memory is on {}", kernel, here, there)
                          : fmt::format("{} runs on {} and was given memory of {}", kernel, here, there),
              argument_of(first),
              {here},
              &first};
  for (const Pointer& pointer : pointers) fault.devices.push_back(pointer.device.name());
  return fault;
}

// What only the access shows; empty where what the launch was given shows it.
std::optional<Fault> fault_of_access(const MisplacedLaunch& misplaced, const std::string& kernel) {
  using To = KernelAccess::To;
  if (!misplaced.access) return std::nullopt;
  const KernelAccess& access = *misplaced.access;
  const Pointer* const pointer = &misplaced.pointers[misplaced.accessed];
  const std::string here = misplaced.device.name();
  const auto on_host = [](const Pointer& p) { return p.device.is_cpu(); };
  if (access.to == To::variable)
    return Fault{"unset-variable",
                 fmt::format("{} runs on {} and reads {}, which was set on {} alone", kernel, here,
                             variable_name(access.variable), pointer->device.name()),
                 argument_of(*pointer),
                 {here, pointer->device.name()},
                 pointer};
  const bool checked = access.to == To::shared || access.to == To::unwritten;  // --kernel-checks all
  if (!checked && access.device != misplaced.device.index && access.to != To::nobodys) return std::nullopt;
  if (!checked && std::ranges::any_of(misplaced.pointers, on_host)) return std::nullopt;
  return Fault{access.to == To::shared      ? "shared-memory-race"
               : access.to == To::unwritten ? "uninitialized-read"
                                            : "invalid-access",
               fmt::format("{} runs on {} and {} {} bytes of {}", kernel, here, access.writes ? "writes" : "reads",
                           access.bytes, access.whose),
               argument_of(*pointer),
               {here},
               pointer};
}

// Nothing when the policy excuses it, or when a launch that CUDA refused for its stream has a finding for its memory:
// one launch is one finding. Takes no GIL: a launch may come while a lock is held for which the GIL's owner waits.
// Holds no lock.
std::optional<Finding> finding_of(const MisplacedLaunch& misplaced) {
  const std::string kernel = binary::demangled(misplaced.launch.kernel->name), name = binary::short_kernel_name(kernel);
  const stacks::StackId earlier = misplaced.launched_at;
  NativeStack native;
  if (earlier == 0)
    native = evidence::capture_native_stack();
  else if (stacks::is_native(earlier))
    native.frames = stacks::resolve_native(earlier, true);
  const bool of_stream = misplaced.launch.stream_device >= 0;
  std::vector<Device> owners;
  for (const Pointer& pointer : misplaced.pointers) owners.push_back(pointer.device);
  const bool memory_elsewhere =
      std::ranges::any_of(owners, [&](const Device& owner) { return owner != misplaced.device; });
  const policy::Decision decision =
      memory_elsewhere && !misplaced.access
          ? policy::on_remote_access({misplaced.launch.kernel->name, kernel, native.frames}, misplaced.device, owners)
          : policy::Decision();
  if (of_stream ? memory_elsewhere && decision.verdict == policy::Verdict::finding
                : decision.verdict == policy::Verdict::excused)
    return std::nullopt;
  std::optional<Fault> by_access = fault_of_access(misplaced, name);
  Fault fault = of_stream   ? fault_of_stream(misplaced, name)
                : by_access ? std::move(*by_access)
                            : fault_of_memory(misplaced, name);
  const SourceText source = evidence::source_from_disk();
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(earlier == 0 ? stacks::capture_python() : earlier);
  finding::Stack shown = evidence::native_stack(native.frames, source, kernel);
  // What the calling thread chose is not known to be what the launching one did.
  const finding::DeviceChange choice = earlier == 0 ? evidence::device_choice(source) : finding::DeviceChange();
  Finding finding = begin(fault.kind, finding::Launch{choice, described(misplaced.launch, kernel)}, fault.devices);
  if (!of_stream) policy::apply(decision, finding);
  finding.message = std::move(fault.message);
  finding.argument = std::move(fault.argument);
  finding.operation = native.operation.empty() ? name : "aten::" + native.operation;
  finding.current_device = misplaced.device.name();
  if (earlier == 0) finding.device_changes = evidence::device_changes(evidence::capture_device_changes(), source);
  finding.operands = operands(misplaced, frames, cpp_parameters(misplaced, kernel, native, shown, source), source);
  if (frames.empty()) name_by_allocation(finding.operands, shown);
  finding.stack = evidence::python_stack(frames, source);
  if (options().native) finding.native = std::move(shown);
  auto& launch = std::get<finding::Launch>(finding.facts).launch;
  if (of_stream) {
    launch.stream_device = fault.devices.back();
    add_stream(finding, misplaced, kernel);
  } else {
    if (!fault.mismatched->variable && fault.mismatched->parameter != Pointer::kNoParameter) {
      launch.parameter = fault.mismatched->parameter;
      launch.offset = fault.mismatched->in_parameter;
    }
    if (misplaced.access) launch.access = described(*misplaced.access, source);
  }
  return finding;
}

void report_launch(const MisplacedLaunch& launch) {
  std::string pointers;
  for (const MisplacedLaunch::Pointer& pointer : launch.pointers)
    pointers += fmt::format("{}+{}:{}{} ", pointer.parameter, pointer.in_parameter, pointer.device.index,
                            memory::peer_access::declared(launch.device, pointer.device) ? "d" : "");
  if (launch.access) pointers += fmt::format("access:{}:{}", launch.access->file, launch.access->line);
  if (launch.launch.stream_device >= 0) pointers += fmt::format("stream:{}", launch.launch.stream_device);
  report_once(
      {launch.launch.kernel->name, launch.device.name(), pointers}, [&] { return finding_of(launch); }, true);
}

}  // namespace

void report(const MisplacedLaunch& launch) {
  run([&] { report_launch(launch); });
}

}  // namespace devtrace::findings
