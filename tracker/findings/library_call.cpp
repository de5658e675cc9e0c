// A call of a mathematics library whose handle is another device's than what it is given, or than the current one.
#include <algorithm>
#include <string_view>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "tracker/base/options.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/findings/findings.h"
#include "tracker/findings/policy.h"
#include "tracker/findings/reporting.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/peer_access.h"

namespace devtrace::findings {
namespace {

using evidence::SourceText;
using finding::Finding;
using Pointer = MisplacedLibraryCall::Pointer;

// What the library's manual calls it.
std::string_view word_for_handle(const events::LibraryCall& call) {
  const std::string_view function = call.function;
  if (function.starts_with("cufft")) return "plan";
  if (function.find("Event") != function.npos) return "event";
  return function.starts_with("curand") ? "generator" : "handle";
}

// What the calling line gives for each argument, the handle first.
std::vector<std::string> written(const events::LibraryCall& call, const finding::Stack& callers) {
  const finding::Frame* const line = finding::native_user_frame(callers);
  const auto found = line ? report::only_call(line->source, call.function) : std::nullopt;
  if (!found || found->arguments.size() < call.count + 1) return {};
  return {found->arguments.begin(), found->arguments.end()};
}

finding::Operand operand_of(uint16_t position, const std::string& name, const char* role, Device device) {
  finding::Operand operand;
  operand.name = name;
  operand.role = role;
  operand.device = device.name();
  operand.position = position;
  return operand;
}

finding::Operand memory_operand(const Pointer& pointer, const std::string& name, Device user,
                                const SourceText& source) {
  finding::Operand operand = operand_of(pointer.argument, name, "argument", pointer.device);
  operand.address = fmt::format("{:#x}", pointer.address);
  add_memory(operand, pointer.address, source);
  if (user.known()) add_reach(operand, user, pointer.device, pointer.address, source);
  return operand;
}

// Of an argument that describes several pieces of memory the first one that lies elsewhere, or the first.
std::vector<Pointer> one_each(const MisplacedLibraryCall& misplaced) {
  std::vector<Pointer> all;
  for (const Pointer& pointer : misplaced.pointers) {
    if (all.empty() || all.back().argument != pointer.argument)
      all.push_back(pointer);
    else if (all.back().device == misplaced.device)
      all.back() = pointer;
  }
  return all;
}

// The handle, and what it was given, each once.
finding::List<finding::Operand> operands(const MisplacedLibraryCall& misplaced, bool handle_is_mismatched,
                                         const finding::Stack& callers, const SourceText& source) {
  const events::LibraryCall& call = misplaced.call;
  const std::string word(word_for_handle(call));
  const std::vector<std::string> texts = written(call, callers);
  finding::List<finding::Operand> all{
      operand_of(0, texts.empty() ? "the " + word : texts[0], word.c_str(), misplaced.device)};
  all[0].created = evidence::creation_of_handle(call.handle, source);
  all[0].mismatched = handle_is_mismatched;
  std::vector<uintptr_t> shown;
  for (const Pointer& pointer : one_each(misplaced)) {
    if (std::find(shown.begin(), shown.end(), pointer.address) != shown.end()) continue;  // given twice
    shown.push_back(pointer.address);
    if (misplaced.on_stream) {
      const std::string unnamed = pointer.address == 0 ? "the default stream" : "the stream";
      all.push_back(
          operand_of(pointer.argument, texts.empty() ? unnamed : texts[pointer.argument], "stream", pointer.device));
      all.back().created = evidence::creation_of_handle(pointer.address, source);
    } else {
      const std::string unnamed = fmt::format("argument {} of {}", pointer.argument, call.function);
      all.push_back(memory_operand(pointer, texts.empty() ? unnamed : texts[pointer.argument],
                                   callers.front().is_native() ? misplaced.device : Device(), source));
    }
    all.back().mismatched = !handle_is_mismatched && pointer.device != misplaced.device;
  }
  return all;
}

// Those of the library that belong to the device on which the memory lies.
finding::List<finding::OtherHandle> other_handles(const MisplacedLibraryCall& misplaced, const SourceText& source) {
  finding::List<finding::OtherHandle> list;
  const Device on = misplaced.pointers.front().device;
  const auto own = memory::library_handles::known_handle(misplaced.call.handle);
  if (!own || on == misplaced.device) return list;
  for (const auto& other : memory::library_handles::others(*own, on)) {
    finding::OtherHandle& one = list.emplace_back();
    one.device = on.name();
    one.created = evidence::creation(other.made, source);
    one.created.call = other.function;
  }
  return list;
}

finding::HandleUse use_of(const MisplacedLibraryCall& misplaced) {
  const events::LibraryCall& call = misplaced.call;
  finding::HandleUse use;
  use.function = call.function;
  use.device = misplaced.device.name();
  use.refused = misplaced.refused;
  const auto handle = memory::library_handles::known_handle(call.handle);
  use.used = handle && handle->used;
  if (call.stream) {
    const events::StreamOfHandle stream = call.stream(call.handle);
    use.stream = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(stream.stream));
    if (stream.device >= 0) use.stream_device = Device::cuda(stream.device).name();
  }
  if (misplaced.on_stream) {
    use.stream = fmt::format("{:#x}", misplaced.pointers.front().address);
    use.stream_device = misplaced.pointers.front().device.name();
  }
  return use;
}

// Nothing: the policy says that it is somebody's job.
std::optional<Finding> finding_of(const MisplacedLibraryCall& misplaced) {
  const events::LibraryCall& call = misplaced.call;
  const auto& pointers = misplaced.pointers;
  const evidence::NativeStack native = evidence::capture_native_stack();
  std::vector<std::string> devices = {misplaced.device.name()};
  for (const Pointer& pointer : pointers) devices.push_back(pointer.device.name());
  if (misplaced.refused) devices.push_back(current_device());
  Finding finding = begin("handle-mismatch", finding::LibraryCall(), devices);
  if (!misplaced.refused && !misplaced.on_stream) {
    std::vector<Device> owners;
    for (const Pointer& pointer : pointers) owners.push_back(pointer.device);
    const RemoteAccess access{call.function, call.function, native.frames};
    if (!policy::apply(policy::on_remote_access(access, misplaced.device, owners), finding)) return std::nullopt;
  }
  const std::string word(word_for_handle(call));
  const auto elsewhere = std::find_if(pointers.begin(), pointers.end(),
                                      [&](const Pointer& pointer) { return pointer.device != misplaced.device; });
  const bool all_there = !pointers.empty() && std::all_of(pointers.begin(), pointers.end(), [&](const Pointer& p) {
    return p.device == pointers.front().device;
  });
  finding.message =
      misplaced.on_stream ? fmt::format("{} was given an event of {} and a stream of {}, which CUDA refuses",
                                        call.function, misplaced.device.name(), elsewhere->device.name())
      : misplaced.refused ? fmt::format("{} was given a {} of {} while {} was current, which the library refuses",
                                        call.function, word, misplaced.device.name(), finding.current_device)
                          : fmt::format("{} was given a {} of {} and memory of {}", call.function, word,
                                        misplaced.device.name(), elsewhere->device.name());
  finding.operation = call.function;
  const bool handle_is_mismatched = misplaced.refused || all_there;
  finding.argument = handle_is_mismatched ? word : fmt::format("argument {}", elsewhere->argument);
  const SourceText source = evidence::source_from_disk();
  finding.device_changes = evidence::device_changes(evidence::capture_device_changes(), source);
  finding.stack = evidence::python_stack(stacks::resolve(stacks::capture_python()), source);
  finding::Stack shown = evidence::native_stack(native.frames, source);
  finding.operands = operands(misplaced, handle_is_mismatched, finding.stack.empty() ? shown : finding.stack, source);
  if (options().native) finding.native = std::move(shown);
  finding::HandleUse use = use_of(misplaced);
  if (handle_is_mismatched && !pointers.empty() && !misplaced.on_stream)
    use.other_handles = other_handles(misplaced, source);
  finding.facts = finding::LibraryCall{std::move(use)};
  return finding;
}

void report_library_call(const MisplacedLibraryCall& misplaced) {
  std::string pointers = misplaced.refused ? "refused " : "";
  for (const MisplacedLibraryCall::Pointer& pointer : misplaced.pointers)
    pointers += fmt::format("{}:{}{} ", pointer.argument, pointer.device.index,
                            memory::peer_access::declared(misplaced.device, pointer.device) ? "d" : "");
  report_once(
      {misplaced.call.function, misplaced.device.name(), pointers}, [&] { return finding_of(misplaced); }, true);
}

}  // namespace

void report(const MisplacedLibraryCall& call) {
  run([&] { report_library_call(call); });
}

}  // namespace devtrace::findings
