#include "tracker/log/record_fields.h"

#include <dlfcn.h>
#include <sys/prctl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/base/signature.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/evidence/operation.h"
#include "tracker/log/kernel_stub.h"
#include "tracker/log/native_frames.h"
#include "tracker/memory/device_history.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/ownership.h"
#include "tracker/stacks/native/caller.h"

namespace devtrace::log::record_fields {
namespace {

constexpr size_t kMostNativeFrames = 128;

// Where this library itself is mapped; 0 when the loader does not say.
uintptr_t own_base() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&own_base), &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}

Json origin_json(const memory::provenance::Origin& origin, const std::string& library, const SourceText& source) {
  Json record{{"time", static_cast<double>(origin.time) * 1e-9}, {"thread", origin.thread}};
  add_stack(record, origin.stack, library, source);
  return record;
}

// What the thread's current device was then, and who chose it: of memory of CUDA devices.
void add_choice(Json& record, const memory::provenance::Origin& origin, const std::string& library,
                const SourceText& source) {
  if (!origin.device.is_cuda() || origin.time == 0) return;
  const auto then = memory::device_history::at(origin.thread, origin.time);
  if (then.by_default) record["device_choice"] = {{"device", Device::cuda(0).name()}, {"by_default", true}};
  if (!then.choice || then.choice->device < 0) return;
  record["device_choice"] = {{"device", Device::cuda(then.choice->device).name()},
                             {"time", static_cast<double>(then.choice->time) * 1e-9}};
  add_stack(record["device_choice"], then.choice->stack, library, source);
}

// A log holds what its reader wants to see of a stack: not every frame's surroundings, but those of the line that he
// can change.
void add_excerpt(Json& frame, const evidence::Excerpt& excerpt) {
  if (excerpt.line > 0) frame["around"] = {{"line", excerpt.line}, {"text", excerpt.text}};
}

std::string thread_name() {
  char name[17] = {};
  return ::prctl(PR_GET_NAME, name, 0, 0, 0) == 0 ? name : "";
}

}  // namespace

bool evaluates_python(const stacks::NativeFrame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrame");
}

void add(Json& record, const char* key, std::string value) {
  if (!value.empty()) record[key] = std::move(value);
}

void add_source(Json& record, std::string text) {
  constexpr size_t kLongest = 2000;  // code that a program has written, data in one line
  if (text.size() <= kLongest) add(record, "source", std::move(text));
}

SourceText source_from_disk() {
  using Lines = std::vector<std::string>;
  const auto lines_of = [files = std::make_shared<std::map<std::string, Lines>>()](const std::string& file) -> Lines& {
    const auto [entry, fresh] = files->try_emplace(file);
    if (fresh) entry->second = evidence::lines_on_disk(file);
    return entry->second;
  };
  return {[lines_of](const std::string& file, int line) -> std::string {
            const Lines& lines = lines_of(file);
            if (line < 1 || static_cast<size_t>(line) > lines.size()) return {};
            const std::string& text = lines[static_cast<size_t>(line) - 1];
            return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
          },
          [lines_of](const std::string& file, int line) { return evidence::around(lines_of(file), line, line); }};
}

// The statement that a line is of: compilers tell a call's first line, or that of its last argument.
std::string cpp_statement(const SourceText& source, const std::string& file, int line) {
  constexpr int kMostLines = 10;
  std::string text = source.lines(file, line);
  int open = report::shape_of(text).open, first = line, last = line;
  while (open < 0 && first > 1 && last - first < kMostLines) {
    const std::string before = source.lines(file, --first);
    open += report::shape_of(before).open;
    text = before + '\n' + text;
  }
  while (open > 0 && last - first < kMostLines) {
    const std::string next = source.lines(file, ++last);
    if (next.empty()) break;
    open += report::shape_of(next).open;
    text += '\n' + next;
  }
  return open == 0 ? text : source.lines(file, line);
}

// GCC gives what stands in the braces of an initialiser the line where the function ends: `return {a * b, c};`. The
// only line of the function that calls `inner` then.
int written_line(const SourceText& source, const std::string& file, int line, std::string_view inner) {
  constexpr int kMostLines = 200;
  if (line <= 0 || source.lines(file, line).find_first_not_of(" \t};") != std::string::npos) return line;
  const std::string name = report::unqualified_name(inner);
  int found = 0;
  for (int at = line - 1, open = 1; at > 0 && line - at < kMostLines; --at) {
    const std::string text = source.lines(file, at);
    open -= report::shape_of(text).braces;
    if (open <= 0) break;
    if (!report::calls(text, name)) continue;
    if (found > 0) return line;
    found = at;
  }
  return found > 0 ? found : line;
}

void add_extent(Json& operand, uintptr_t address) {
  if (const auto extent = memory::ownership::find(address))
    operand["bytes"] = extent->bytes;
  else if (const auto block = memory::provenance::find(address))
    operand["bytes"] = block->bytes;
}

// Which frames of an earlier place are the user's own is told by the same rule; sources are read while they are at
// hand.
Json python_json(const std::vector<stacks::PythonFrame>& frames, const std::string& library, const SourceText& source) {
  Json list = Json::array();
  bool excerpt_taken = !options().source;
  for (const stacks::PythonFrame& frame : frames) {
    Json entry{{"file", frame.file}, {"line", frame.line}, {"function", frame.function}};
    if (options().source) add_source(entry, source.lines(frame.file, frame.line));
    if (evidence::is_project_file(frame.file, library)) {
      entry["project"] = true;
      if (!std::exchange(excerpt_taken, true)) add_excerpt(entry, source.around(frame.file, frame.line));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json python_json(const std::vector<evidence::Frame>& frames) {
  Json list = Json::array();
  for (const evidence::Frame& frame : frames) {
    Json entry{{"file", frame.file}, {"line", frame.region.line}, {"function", frame.function}};
    if (options().source) add_source(entry, frame.source);
    if (frame.project) entry["project"] = true;
    if (options().source) add_excerpt(entry, frame.around);
    list.push_back(std::move(entry));
  }
  return list;
}

Json native_json(const std::vector<stacks::NativeFrame>& frames, const SourceText& source, std::string_view kernel) {
  Json list = Json::array();
  bool excerpt_taken = !options().source;
  const auto stub = kernel_stub(frames, kernel);
  for (const stacks::NativeFrame& frame : frames) {
    if (frame.module.empty() && frame.function.empty() && frame.address + 1 == 0) continue;  // its object is gone
    Json entry = Json::object();
    add(entry, "module", frame.module);
    add(entry, "function", frame.function);
    entry["offset"] = fmt::format("{:#x}", frame.offset);
    const std::string file = source_file(frame);
    add(entry, "file", file);
    const std::string_view inner = list.empty() ? "" : std::string_view((&frame - 1)->function);
    const int at = is_project_frame(frame) ? written_line(source, file, frame.line, inner) : frame.line;
    if (at > 0) entry["line"] = at;
    if (frame.inlined) entry["inlined"] = true;
    if (is_project_frame(frame) && (!stub || &frame != &frames[*stub])) {
      entry["project"] = true;
      if (options().source && frame.line > 0) {
        add(entry, "source", cpp_statement(source, file, at));
        if (!std::exchange(excerpt_taken, true)) add_excerpt(entry, source.around(file, at));
      }
    }
    list.push_back(std::move(entry));
  }
  return list;
}

void add_stack(Json& record, stacks::StackId stack, const std::string& library, const SourceText& source) {
  record["python"] = python_json(stacks::resolve(stack), library, source);
  if (!stacks::is_native(stack) || !options().native) return;
  std::vector<stacks::NativeFrame> frames = stacks::resolve_native(stack, true);
  add(record, "call", take_called_function(frames));
  Json native = native_json(frames, source_from_disk());
  if (!native.empty()) record["native"] = std::move(native);
}

void add_creation(Json& operand, const memory::provenance::Origin& origin, const SourceText& source) {
  operand["created"] = origin_json(origin, "", source);
  operand["created"]["device"] = origin.device.name();
  add_choice(operand["created"], origin, "", source);
}

void add_handle_creation(Json& operand, events::LibraryHandle handle, const SourceText& source) {
  const auto known = memory::library_handles::find(handle);
  if (!known) return;
  add_creation(operand, known->made, source);
  operand["created"]["call"] = known->function;
}

void add_provenance(Json& operand, uintptr_t storage, const std::string& library, const SourceText& source) {
  const auto block = storage ? memory::provenance::find(storage) : std::nullopt;
  // Of the host's memory much is not PyTorch's, and never seen.
  const bool unseen =
      !block && storage && process_start::attached() > 0 && operand.value("device", "").starts_with("cuda");
  if (unseen || (block && block->existed)) operand["before_attach"] = true;
  if (!block || (block->existed && !block->moved_from.known())) return;
  if (block->pooled) operand.erase("pool");  // the array's own statement is known
  if (!block->moved_from.known()) {
    operand["created"] = origin_json(block->allocated, library, source);
    operand["created"]["device"] = block->allocated.device.name();
    add_choice(operand["created"], block->allocated, library, source);
    return;
  }
  if (block->created.time != 0) {
    operand["created"] = origin_json(block->created, library, source);
    operand["created"]["device"] = block->created.device.name();
  }
  operand["moved"] = origin_json(block->allocated, library, source);
  operand["moved"]["from"] = block->moved_from.name();
  operand["moved"]["to"] = block->allocated.device.name();
  add_choice(operand["moved"], block->allocated, library, source);
}

DeviceChanges device_changes() {
  return {memory::device_history::kept(), stacks::capture_python(), stacks::statement_of(stacks::capture())};
}

void add_device_changes(Json& record, const DeviceChanges& taken, const std::string& library,
                        const SourceText& source) {
  Json changes = Json::array();
  for (const memory::device_history::Choice& choice : taken.choices) {
    // PyTorch's own guard, around the operation that is being refused.
    if (taken.statement != 0 && stacks::statement_of(choice.stack) == taken.statement) continue;
    Json change{{"time", static_cast<double>(choice.time) * 1e-9}};
    if (choice.device >= 0) change["device"] = Device::cuda(choice.device).name();
    add_stack(change, choice.stack, library, source);
    changes.push_back(std::move(change));
  }
  if (!changes.empty()) record["device_changes"] = std::move(changes);
}

void add_device(Json& devices, const std::string& name) {
  if (name == "cuda" || name.empty() || name == "unknown") return;
  if (std::find(devices.begin(), devices.end(), Json(name)) == devices.end()) devices.push_back(name);
}

Native native_stack() {
  Native native;
  void* addresses[kMostNativeFrames];
  const size_t count = stacks::capture_native(addresses, kMostNativeFrames);
  native.frames = stacks::symbolize(addresses, count, true);
  // Our hooks stand in PyTorch's stack under PyTorch's names.
  std::erase_if(native.frames, [own = own_base()](const auto& frame) { return frame.address - frame.offset == own; });
  // What called us on the program's behalf stands in front of the program.
  const auto program = std::find_if_not(native.frames.begin(), native.frames.end(),
                                        [](const auto& frame) { return stacks::caller::counts_as_own(frame.module); });
  native.frames.erase(native.frames.begin(), program);
  // What is further out than Python's evaluation has called that Python, and Python asked for what was refused.
  bool in_python = false, entered = false;
  for (const stacks::NativeFrame& frame : native.frames) {
    const bool evaluates = evaluates_python(frame);
    in_python = in_python || evaluates;
    if (in_python) {
      // Of the operators between two evaluations the innermost: the one that has the kernel.
      entered = entered || evaluates;
      const std::string operation = evidence::operation_of(frame.function);
      if (operation.empty() || !entered) continue;
      entered = false;
      if (native.calling.empty()) native.calling = operation;
      native.asked = operation;
      continue;
    }
    if (native.operation.empty()) native.operation = evidence::operation_of(frame.function);
    native.autograd = native.autograd || frame.function.starts_with("torch::autograd::Engine::");
  }
  return native;
}

Json begin(const char* kind) {
  Json record;
  record["record"] = "finding";
  record["kind"] = kind;
  record["time"] = process_start::now();
  record["thread"] = thread_state::id();
  add(record, "thread_name", thread_name());
  return record;
}

}  // namespace devtrace::log::record_fields
