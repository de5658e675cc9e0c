// What the instruction that a frame is executing was given: the objects on the frame's value stack.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::python {

// Borrowed: the frame holds them while the instruction runs.
struct StackOperands {
  PyObject* callee = nullptr;    // of a call: what is called
  PyObject* receiver = nullptr;  // and the object whose method it is, if the instruction has it apart
  // Arguments in the order of the text, those by keyword last. Of an operator its operands, of `x[i] = y` and `x.a = y`
  // y last.
  std::vector<PyObject*> values;
};

// Of the innermost frame of the calling thread, which must hold the GIL and be in a function written in C that this
// frame's own instruction called: what Python calls in turn takes the values over. `code` is that frame's code object,
// to compare. Nothing where the instruction, the version of CPython or what lies on the stack is not understood.
std::optional<StackOperands> operands_on_stack(const Api& api, PyObject* code);

}  // namespace devtrace::python
