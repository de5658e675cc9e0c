// What the calling thread's Python frames hold, read without the GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tracker/python/frame_walker.h"
#include "tracker/python/objects/objects.h"

namespace devtrace::python {

struct Variable {
  size_t frame = 0;  // as resolve(capture_python()) counts them: 0 is the innermost
  std::string name;
  bool argument = false;  // of the frame's function
  bool global = false;    // of the frame's module, seen from a function
  uintptr_t object = 0;   // alive while the frame is; a global only as long as nobody else changes it
};

// Every variable of the innermost `most` frames, first those of the innermost: a function's own and those it encloses,
// a module's. Then the global variables of the functions of files for which `wanted(frame)` is true. Nothing where
// variables cannot be read. For findings only: some microseconds a variable.
void for_each_variable(size_t most, const std::function<bool(size_t frame)>& globals_wanted,
                       const std::function<void(const Objects&, const Variable&)>& visit);

// Those of one frame: its own, or the global ones of the function's module. `index` is handed on as Variable::frame.
enum class Scope { own, global };
void for_each_variable_of(const Objects& objects, const ObjectLayout& layout, const PythonReader& reader,
                          const RawFrame& frame, size_t index, Scope scope,
                          const std::function<void(const Objects&, const Variable&)>& visit);

}  // namespace devtrace::python
