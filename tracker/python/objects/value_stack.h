// What the instruction that a frame is executing was given: the objects on the frame's value stack.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tracker/python/frame_walker.h"
#include "tracker/python/python_api.h"
#include "tracker/python/python_reader.h"

namespace devtrace::python {

// Borrowed: the frame holds them while the instruction runs.
struct StackOperands {
  PyObject* callee = nullptr;    // of a call: what is called
  PyObject* receiver = nullptr;  // and the object whose method it is, if the instruction has it apart
  // Arguments in the order of the text, those by keyword last. Of an operator its operands, of `x[i] = y` and `x.a = y`
  // y last.
  std::vector<PyObject*> values;
};

// Of a thread's innermost frame, while the thread stands still in a function written in C that this frame's own
// instruction called. What Python calls in turn takes the values over. Under the GIL, whoever holds it. Nothing where
// the instruction, the version of CPython or what lies on the stack is not understood.
std::optional<StackOperands> operands_on_stack(const Api& api, const PythonReader& reader, const RawFrame& frame);

}  // namespace devtrace::python
