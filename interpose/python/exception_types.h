// The functions by which CPython makes an exception object, and how others are put in their place.
#pragma once

#include <cstddef>

#include "tracker/python/layout.h"
#include "tracker/python/python_api.h"

namespace devtrace::interpose {

struct MakeException {
  // type->tp_new
  PyObject* (*with_tuple)(PyObject* type, PyObject* arguments, PyObject* keywords) = nullptr;
  // type->tp_vectorcall, from 3.14 on: the keywords' values stand behind the `count` arguments.
  PyObject* (*with_array)(PyObject* type, PyObject* const* arguments, size_t count, PyObject* keywords) = nullptr;
};

// Puts `replacement` in the place of the functions that make exceptions, in every class that has the usual ones;
// classes that are made later inherit the first, and have none of the second. All have to have the same: CPython
// compares. Under the GIL. What stood there before is stored in `original` first; false: nothing was changed, because
// this Python's classes are not known.
bool replace_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, MakeException& original);

// The way back, in every class that has `replacement`. Under the GIL.
void restore_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, const MakeException& original);

}  // namespace devtrace::interpose
