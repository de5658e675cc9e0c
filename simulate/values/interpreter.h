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
template <class... Arguments>
PyObject* call(PyObject* function, Arguments... arguments) {
  PyObject* packed = g_python.PyTuple_Pack(sizeof...(arguments), arguments...);
  PyObject* result = packed ? g_python.PyObject_Call(function, packed, nullptr) : nullptr;
  if (packed) g_python.Py_DecRef(packed);
  return result;
}

// What Python's functions of ours are made with: they take a tuple and keywords.
constexpr int kMethod = python::METH_VARARGS | python::METH_KEYWORDS;

}  // namespace devtrace::simulate::values
