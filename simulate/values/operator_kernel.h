// An operator's kernel on simulated devices: the real one, then the one that computes the result.
#pragma once

#include "common/python_api.h"

namespace devtrace::simulate::values {

// wrap(real, compute, second_chance, before, positions, wrap_number, pending, again, follow): the kernel to register,
// as a function of Python's. What each is: operator_kernel.cpp.
PyObject* wrap(PyObject*, PyObject* arguments, PyObject*);

}  // namespace devtrace::simulate::values
