// What python/ may call of us, and the longer ones of it.
#pragma once

#include <span>

#include "common/python_api.h"

namespace devtrace::simulate::values {

// One row for each; what it takes and gives stands at its definition.
std::span<python::PyMethodDef> functions();

// wrap(real, compute, second_chance, before, positions, wrap_number, pending, again, follow): the kernel to register,
// as a function of Python's: the real one, then the one that computes the result. What each is: operator_kernel.cpp.
PyObject* wrap(PyObject*, PyObject* arguments, PyObject*);

// PyTorch before 2.9 gives no kernel away that is about to be replaced: it is kept under another key of the operator's.
// The kernel of `name` ("aten::add") and `overload` ("Tensor" or "") that is registered for the dispatch key `from` is
// registered for `to`, too. The keys are c10::DispatchKey's numbers, which every PyTorch counts anew. False where this
// PyTorch is none of 2.4 to 2.8, or the operator has no such kernel. For a thread that holds the GIL.
bool keep_kernel(const char* name, const char* overload, int from, int to);

}  // namespace devtrace::simulate::values
