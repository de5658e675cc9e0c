// The process's Python, whose functions are found where the process has them: there are no Python headers in the build.
#pragma once

#include <sys/types.h>

#include <memory>

#include "common/python_api.h"

namespace devtrace::simulate::values {

// Of no use before find_python() has said yes.
extern python::Api g_python;

// False: the process has none, or one that lacks what we call.
bool find_python();

// A reference that is given up at the end; null with an exception where what made it failed.
struct DecRef {
  void operator()(PyObject* object) const { g_python.Py_DecRef(object); }
};
using Ref = std::unique_ptr<PyObject, DecRef>;
Ref new_reference(PyObject* object);

// Borrowed.
PyObject* none();
PyObject* type_of(PyObject* value);

// The items of a tuple from `first` on.
Ref items_from(PyObject* tuple, ssize_t first);
template <class... Arguments>
Ref call(PyObject* function, Arguments... arguments) {
  const Ref packed(g_python.PyTuple_Pack(sizeof...(arguments), arguments...));
  return Ref(packed ? g_python.PyObject_Call(function, packed.get(), nullptr) : nullptr);
}

// What Python's functions of ours are made with: they take a tuple and keywords.
constexpr int kMethod = python::METH_VARARGS | python::METH_KEYWORDS;

}  // namespace devtrace::simulate::values
