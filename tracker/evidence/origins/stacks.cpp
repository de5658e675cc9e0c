#include "tracker/evidence/origins/stacks.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "tracker/base/options.h"
#include "tracker/evidence/operation.h"
#include "tracker/evidence/origins/kernel_stub.h"
#include "tracker/evidence/origins/native_frames.h"
#include "tracker/stacks/native/caller.h"

namespace devtrace::evidence {
namespace {

constexpr size_t kMostNativeFrames = 128;

// Where this library itself is mapped; 0 when the loader does not say.
uintptr_t own_base() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&own_base), &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
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

}  // namespace

bool evaluates_python(const stacks::NativeFrame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrame");
}

std::string shown_source(std::string text) {
  constexpr size_t kLongest = 2000;  // code that a program has written, data in one line
  return options().source && text.size() <= kLongest ? std::move(text) : std::string();
}

SourceText source_from_disk() {
  const auto read = [files = std::make_shared<std::map<std::string, Source>>()](const std::string& file) -> Source& {
    const auto entry = files->find(file);
    return entry != files->end() ? entry->second : files->try_emplace(file, lines_on_disk(file)).first->second;
  };
  // Of C++ one line: which ones a statement has is asked with cpp_statement.
  const auto is_python = [](const std::string& file) { return file.ends_with(".py"); };
  return {[=](const std::string& file, int line) -> std::string {
            if (is_python(file)) return read(file).lines({line});
            const auto& lines = read(file).all();
            if (line < 1 || static_cast<size_t>(line) > lines.size()) return {};
            const std::string& text = lines[static_cast<size_t>(line) - 1];
            return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
          },
          [=](const std::string& file, int line) { return is_python(file) ? read(file).first_line({line}) : line; },
          [=](const std::string& file, int line) { return evidence::around(read(file).all(), line, line); },
          {}, [=](const std::string& file) -> const auto& {return read(file).all();
}
};  // namespace devtrace::evidence
}

void tell_source(finding::Frame& frame, const SourceText& source) {
  if (!options().source || frame.line <= 0) return;
  const int line = static_cast<int>(frame.line);
  frame.source = shown_source(source.lines(frame.file, line));
  const int first = source.first_line(frame.file, line);
  if (!frame.source.empty() && first != line) frame.source_line = first;
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

// Which frames of an earlier place are the user's own is told by the same rule; sources are read while they are at
// hand. Not every frame's surroundings are told, but those of the line that the reader can change.
finding::Stack python_stack(const std::vector<stacks::PythonFrame>& frames, const SourceText& source) {
  finding::Stack stack;
  stack.known = true;
  bool excerpt_taken = !options().source;
  for (const stacks::PythonFrame& frame : frames) {
    finding::Frame& shown = stack.emplace_back();
    shown.file = frame.file;
    shown.line = frame.line;
    shown.function = frame.function;
    tell_source(shown, source);
    shown.project = is_project_file(frame.file, source.standard_library);
    if (shown.project && !std::exchange(excerpt_taken, true)) shown.around = source.around(frame.file, frame.line);
  }
  return stack;
}

std::optional<size_t> innermost_project(const std::vector<stacks::PythonFrame>& stack, const SourceText& source,
                                        size_t from) {
  for (size_t frame = from; frame < stack.size(); ++frame)
    if (is_project_file(stack[frame].file, source.standard_library)) return frame;
  return std::nullopt;
}

std::optional<LiveLine> live_line(const std::vector<stacks::PythonFrame>& made, const std::vector<Frame>& frames) {
  std::optional<LiveLine> found;
  for (size_t outside = 1; outside <= std::min(made.size(), frames.size()); ++outside) {
    const stacks::PythonFrame& then = made[made.size() - outside];
    const Frame& now = frames[frames.size() - outside];
    if (then.file != now.file || then.function != now.function) break;
    found = LiveLine{frames.size() - outside, then.line};
    if (then.line != now.region.line) break;
  }
  return found;
}

finding::Stack python_stack(const std::vector<Frame>& frames) {
  finding::Stack stack;
  stack.known = true;
  for (const Frame& frame : frames) {
    finding::Frame& shown = stack.emplace_back();
    shown.file = frame.file;
    shown.line = frame.region.line;
    shown.function = frame.function;
    shown.source = shown_source(frame.source);
    if (!shown.source.empty() && frame.source_line != frame.region.line) shown.source_line = frame.source_line;
    shown.project = frame.project;
    if (options().source) shown.around = frame.around;
  }
  return stack;
}

finding::Stack native_stack(const std::vector<stacks::NativeFrame>& frames, const SourceText& source,
                            std::string_view kernel) {
  finding::Stack stack;
  stack.known = true;
  bool excerpt_taken = !options().source;
  const auto stub = kernel_stub(frames, kernel);
  for (const stacks::NativeFrame& frame : frames) {
    if (frame.module.empty() && frame.function.empty() && frame.address + 1 == 0) continue;  // its object is gone
    const std::string_view inner = stack.empty() ? "" : std::string_view((&frame - 1)->function);
    const bool own = is_project_frame(frame);
    finding::Frame& shown = stack.emplace_back();
    shown.module = frame.module;
    shown.function = frame.function;
    shown.offset = fmt::format("{:#x}", frame.offset);
    shown.file = source_file(frame);
    const int at = own ? written_line(source, shown.file, frame.line, inner) : frame.line;
    shown.line = std::max(at, 0);
    shown.inlined = frame.inlined;
    shown.project = own && (!stub || &frame != &frames[*stub]);
    if (!shown.project || !options().source || frame.line <= 0) continue;
    shown.source = cpp_statement(source, shown.file, at);
    if (!std::exchange(excerpt_taken, true)) shown.around = source.around(shown.file, at);
  }
  return stack;
}

NativeStack capture_native_stack() {
  NativeStack native;
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
      const std::string operation = operation_of(frame.function);
      if (operation.empty() || !entered) continue;
      entered = false;
      if (native.calling.empty()) native.calling = operation;
      native.asked = operation;
      continue;
    }
    if (std::string operation = operation_of(frame.function); !operation.empty()) {
      if (native.operation.empty()) native.operation = operation;
      native.outermost = std::move(operation);
    }
    native.autograd = native.autograd || frame.function.starts_with("torch::autograd::Engine::");
  }
  return native;
}

}  // namespace devtrace::evidence
