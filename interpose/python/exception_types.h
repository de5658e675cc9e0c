// The functions by which CPython makes an exception object, and how others are put in their place.
#pragma once

#include <cstddef>

#include "tracker/python/layout.h"
#include "tracker/python/python_api.h"

namespace devtrace::interpose {

struct MakeException {
  // tp_call of `type` and of the metaclasses that have the same: makes objects of every class.
  PyObject* (*with_tuple)(PyObject* type, PyObject* arguments, PyObject* keywords) = nullptr;
  // tp_vectorcall of exceptions, from 3.14 on: the keywords' values stand behind the `count` arguments.
  PyObject* (*with_array)(PyObject* type, PyObject* const* arguments, size_t count, PyObject* keywords) = nullptr;
};

// Puts `replacement` in the place of these functions. Exceptions' own tp_new and tp_init stay: CPython compares them,
// in codecs' errors (up to 3.11) and in every __new__, also of classes of other interpreters, which cannot be reached.
// What stood there before is stored in `original` first, unless it is `replacement`, that was not taken back. Under the
// GIL. False: nothing was changed, because this Python's classes are not known.
bool replace_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, MakeException& original);

// The way back, in every class that has `replacement`. Under the GIL.
void restore_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, const MakeException& original);

}  // namespace devtrace::interpose
