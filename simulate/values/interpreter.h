// The process's Python, whose functions are found where the process has them: there are no Python headers in the build.
#pragma once

#include <sys/types.h>

#include "common/python_api.h"

namespace devtrace::simulate::values {

// Of no use before find_python() has said yes.
extern python::Api g_python;

// False: the process has none, or one that lacks what we call.
bool find_python();

// Borrowed.
PyObject* none();
PyObject* type_of(PyObject* value);

// A new reference, or null with an exception. rest(): the items from `first` on.
PyObject* rest(PyObject* tuple, ssize_t first);
PyObject* call_without_arguments(PyObject* function);

// What Python's functions of ours are made with: they take a tuple and keywords.
constexpr int kMethod = python::METH_VARARGS | python::METH_KEYWORDS;

}  // namespace devtrace::simulate::values
