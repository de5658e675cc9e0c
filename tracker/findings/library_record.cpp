#include "tracker/findings/library_record.h"

#include <algorithm>
#include <string_view>

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "tracker/base/options.h"
#include "tracker/findings/policy.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"
#include "tracker/memory/library_handles.h"

namespace devtrace::findings {
namespace {

using namespace log::record_fields;
using Pointer = MisplacedLibraryCall::Pointer;

// What the library's manual calls it.
std::string_view word_for_handle(const events::LibraryCall& call) {
  const std::string_view function = call.function;
  if (function.starts_with("cufft")) return "plan";
  if (function.find("Event") != function.npos) return "event";
  return function.starts_with("curand") ? "generator" : "handle";
}

// What the calling line gives for each argument, the handle first.
std::vector<std::string> written(const events::LibraryCall& call, const Json& native) {
  const Json& line = report::native_user_frame(native);
  const auto found = report::only_call(report::string(line, "source"), call.function);
  if (!found || found->arguments.size() < call.count + 1) return {};
  return {found->arguments.begin(), found->arguments.end()};
}

Json handle_operand(const MisplacedLibraryCall& misplaced, const std::vector<std::string>& texts,
                    const SourceText& source) {
  const events::LibraryCall& call = misplaced.call;
  const std::string word(word_for_handle(call));
  Json operand{{"name", texts.empty() ? "the " + word : texts[0]},
               {"role", word},
               {"device", misplaced.device.name()},
               {"position", 0}};
  add_handle_creation(operand, call.handle, source);
  return operand;
}

Json memory_operand(const Pointer& pointer, const events::LibraryCall& call, const std::vector<std::string>& texts,
                    const SourceText& source) {
  Json operand{{"name", texts.empty() ? fmt::format("argument {} of {}", pointer.argument, call.function)
                                      : texts[pointer.argument]},
               {"role", "argument"},
               {"device", pointer.device.name()},
               {"position", pointer.argument}};
  add_extent(operand, pointer.address);
  operand["address"] = fmt::format("{:#x}", pointer.address);
  add_provenance(operand, pointer.address, "", source);
  return operand;
}

Json stream_operand(const Pointer& pointer, const std::vector<std::string>& texts, const SourceText& source) {
  const std::string_view unnamed = pointer.address == 0 ? "the default stream" : "the stream";
  Json operand{{"name", texts.empty() ? std::string(unnamed) : texts[pointer.argument]},
               {"role", "stream"},
               {"device", pointer.device.name()},
               {"position", pointer.argument}};
  add_handle_creation(operand, pointer.address, source);
  return operand;
}

// Those of the library that belong to the device on which the memory lies.
Json other_handles(const MisplacedLibraryCall& misplaced, Device on, const SourceText& source) {
  Json list = Json::array();
  const auto own = memory::library_handles::find(misplaced.call.handle);
  if (!own || on == misplaced.device) return list;
  for (const auto& other : memory::library_handles::others(*own, on)) {
    Json entry{{"device", on.name()}};
    add_creation(entry, other.made, source);
    entry["created"]["call"] = other.function;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::optional<report::Json> library_record(const MisplacedLibraryCall& misplaced) {
  const events::LibraryCall& call = misplaced.call;
  const auto& pointers = misplaced.pointers;
  const Native native = native_stack();
  Json record = begin("handle-mismatch");
  if (!misplaced.refused && !misplaced.on_stream) {
    std::vector<Device> owners;
    for (const Pointer& pointer : pointers) owners.push_back(pointer.device);
    const policy::Decision allowed =
        policy::on_remote_access({call.function, call.function, native.frames}, misplaced.device, owners);
    if (allowed.verdict == policy::Verdict::excused) return std::nullopt;
    if (allowed.verdict == policy::Verdict::note) {
      record["severity"] = "note";
      record["note"] = allowed.reason;
    }
  }
  const std::string word(word_for_handle(call));
  const int current = platform().current_device ? platform().current_device() : -1;
  const std::string current_device = current >= 0 ? Device::cuda(current).name() : "";
  const auto odd = std::find_if(pointers.begin(), pointers.end(),
                                [&](const Pointer& pointer) { return pointer.device != misplaced.device; });
  const bool all_there = !pointers.empty() && std::all_of(pointers.begin(), pointers.end(), [&](const Pointer& p) {
    return p.device == pointers.front().device;
  });
  record["message"] =
      misplaced.on_stream ? fmt::format("{} was given an event of {} and a stream of {}, which CUDA refuses",
                                        call.function, misplaced.device.name(), odd->device.name())
      : misplaced.refused ? fmt::format("{} was given a {} of {} while {} was current, which the library refuses",
                                        call.function, word, misplaced.device.name(), current_device)
                          : fmt::format("{} was given a {} of {} and memory of {}", call.function, word,
                                        misplaced.device.name(), odd->device.name());
  record["operation"] = call.function;
  add(record, "current_device", current_device);
  const bool handle_is_odd = misplaced.refused || all_there;
  Json devices = Json::array();
  add_device(devices, misplaced.device.name());
  for (const Pointer& pointer : pointers) add_device(devices, pointer.device.name());
  if (misplaced.refused) add_device(devices, current_device);
  record["devices"] = std::move(devices);
  const SourceText source = source_from_disk();
  add_device_changes(record, device_changes(), "", source);
  record["python"] = python_json(stacks::resolve(stacks::capture_python()), "", source);
  Json native_frames = native_json(native.frames, source);
  const std::vector<std::string> texts = written(call, record["python"].empty() ? native_frames : record["python"]);
  record["argument"] = handle_is_odd ? word : fmt::format("argument {}", odd->argument);
  Json operands = Json::array({handle_operand(misplaced, texts, source)});
  if (handle_is_odd) operands[0]["odd"] = true;
  std::vector<uintptr_t> shown;
  for (const Pointer& pointer : pointers) {
    if (std::find(shown.begin(), shown.end(), pointer.address) != shown.end()) continue;  // given twice
    shown.push_back(pointer.address);
    operands.push_back(misplaced.on_stream ? stream_operand(pointer, texts, source)
                                           : memory_operand(pointer, call, texts, source));
    if (!handle_is_odd && pointer.device != misplaced.device) operands.back()["odd"] = true;
  }
  record["operands"] = std::move(operands);
  if (options().native) record["native"] = std::move(native_frames);
  Json library{{"function", call.function}, {"device", misplaced.device.name()}};
  if (misplaced.refused) library["refused"] = true;
  if (const auto handle = memory::library_handles::find(call.handle); handle && handle->used) library["used"] = true;
  if (call.stream) {
    const events::StreamOfHandle stream = call.stream(call.handle);
    library["stream"] = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(stream.stream));
    if (stream.device >= 0) library["stream_device"] = Device::cuda(stream.device).name();
  }
  if (misplaced.on_stream) {
    library["stream"] = fmt::format("{:#x}", pointers.front().address);
    library["stream_device"] = pointers.front().device.name();
  }
  if (handle_is_odd && !pointers.empty() && !misplaced.on_stream)
    if (Json others = other_handles(misplaced, pointers.front().device, source); !others.empty())
      library["other_handles"] = std::move(others);
  record["library_call"] = std::move(library);
  return record;
}

}  // namespace devtrace::findings
