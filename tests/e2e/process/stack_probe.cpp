// The stacks' seam as a C API for ctypes: loaded into real interpreters by test_stacks.py. Called through ctypes.PyDLL
// it runs with the GIL held, through ctypes.CDLL with it released.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include "tracker/python/line_table.h"
#include "tracker/python/live_frames.h"
#include "tracker/python/objects/variables.h"
#include "tracker/stacks/stacks.h"

using namespace devtrace;

namespace {

// Copies with a final zero, cut at `capacity`; the length that it would have.
size_t give(const std::string& text, char* out, size_t capacity) {
  if (capacity != 0) {
    const size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), size);
    out[size] = 0;
  }
  return text.size();
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT uint32_t probe_capture() {
  return stacks::capture_python();
}

// Frames, innermost first, each "file\0function\0line\0".
EXPORT size_t probe_resolve(uint32_t id, char* out, size_t capacity) {
  std::string text;
  for (const stacks::PythonFrame& frame : stacks::resolve(id)) {
    text += frame.file + '\0' + frame.function + '\0' + std::to_string(frame.line) + '\0';
  }
  return give(text, out, capacity);
}

// The variables of the frame at that depth, as a finding reads them under the GIL: a dict, or None.
EXPORT PyObject* probe_live_variables(size_t depth) {
  const python::Api* const api = python::api();
  const python::FrameSource source = python::FrameSource::of_this_thread();
  const auto frames = python::live_frames(source, depth + 1);
  python::Ref read =
      api && depth < frames.size() ? python::variables_of(*api, *source.reader, frames[depth]) : python::Ref();
  PyObject* const answer = read ? read.get() : api->_Py_NoneStruct;
  api->Py_IncRef(answer);
  return answer;
}

EXPORT size_t probe_status(char* out, size_t capacity) {
  return give(stacks::python_status(), out, capacity);
}

EXPORT size_t probe_stacks() {
  return stacks::usage().stacks;
}
EXPORT size_t probe_bytes() {
  return stacks::usage().bytes;
}

// Mean nanoseconds of `rounds` captures of this stack.
EXPORT double probe_time(int rounds) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) stacks::capture_python();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / rounds;
}

// Variables of the innermost `most` frames and what they hold, each "frame\0name\0kind\0address\0".
EXPORT size_t probe_variables(size_t most, char* out, size_t capacity) {
  std::string text;
  const auto add = [&](size_t frame, const std::string& name, const char* kind, uintptr_t object) {
    text += std::to_string(frame) + '\0' + name + '\0' + kind + '\0' + std::to_string(object) + '\0';
  };
  python::for_each_variable(
      most, [](size_t frame) { return frame == 1; },
      [&](const python::Objects& objects, const python::Variable& variable) {
        const size_t frame = variable.frame;
        add(frame, variable.name,
            variable.global     ? "global"
            : variable.argument ? "argument"
                                : "variable",
            variable.object);
        if (variable.global) return;
        objects.for_each_item(variable.object, [&](size_t index, uintptr_t value) {
          const std::string name = variable.name + "[" + std::to_string(index) + "]";
          add(frame, name, "item", value);
          if (const auto number = objects.integer(value))
            add(frame, name + ".value", "integer", static_cast<uintptr_t>(*number));
        });
        objects.for_each_entry(variable.object, [&](const std::string& key, uintptr_t value) {
          add(frame, variable.name + "[" + key + "]", "entry", value);
        });
        objects.for_each_attribute(variable.object, [&](const std::string& name, uintptr_t value) {
          add(frame, variable.name + "." + name, "attribute", value);
        });
      });
  return give(text, out, capacity);
}

EXPORT size_t probe_native(void** addresses, size_t capacity, size_t skip) {
  return stacks::capture_native(addresses, capacity, skip);
}

// Frames, each "module\0offset\0function\0file\0line\0".
EXPORT size_t probe_symbolize(void** addresses, size_t count, int with_lines, char* out, size_t capacity) {
  std::string text;
  for (const stacks::NativeFrame& frame : stacks::symbolize(addresses, count, with_lines != 0)) {
    text += frame.module + '\0' + std::to_string(frame.offset) + '\0' + frame.function + '\0' + frame.file + '\0' +
            std::to_string(frame.line) + '\0';
  }
  return give(text, out, capacity);
}

// The line of each code unit, by CPython 3.minor's format; 0: none.
EXPORT void probe_lines(int minor, const uint8_t* table, size_t size, int first_line, int* lines, size_t units) {
  for (size_t i = 0; i < units; ++i) {
    lines[i] =
        python::line_at(python::layout_of(minor, false)->lines, table, size, first_line, 2 * static_cast<int64_t>(i));
  }
}

EXPORT void probe_before_fork() {
  stacks::before_fork();
}
EXPORT void probe_after_fork() {
  stacks::after_fork();
}

}  // extern "C"
