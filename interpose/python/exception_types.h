// The function by which CPython makes an exception object, and how another one is put in its place.
#pragma once

#include "tracker/python/python_api.h"

namespace devtrace::interpose {

// type->tp_new
using NewObject = PyObject* (*)(PyObject* type, PyObject* arguments, PyObject* keywords);

// Puts `replacement` in the place of the function that makes exceptions, in every class that there is; classes that
// are made later inherit it. All of them have to have the same one: CPython compares. Under the GIL. What stood there
// before is stored in `original` first; false: nothing was changed, because this Python's classes are not known.
bool replace_new_of_exceptions(const python::Api& api, NewObject replacement, NewObject& original);

// The way back, in every class that has `replacement`. Under the GIL.
void restore_new_of_exceptions(const python::Api& api, NewObject replacement, NewObject original);

}  // namespace devtrace::interpose
