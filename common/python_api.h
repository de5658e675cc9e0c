// CPython's C API as pointers that are looked up in the running process; there are no Python headers in the build.
// PyObject is opaque.
#pragma once

#include <sys/types.h>

#include <type_traits>

struct _object;
using PyObject = _object;

namespace devtrace::python {

// The same since 3.8.
struct PyCompilerFlags {
  int cf_flags;
  int cf_feature_version;
};

// Larger than any version's.
struct PyCriticalSection {
  void* words[4];
};

using PyCFunction = PyObject* (*)(PyObject* self, PyObject* arguments);
using PyCFunctionWithKeywords = PyObject* (*)(PyObject* self, PyObject* arguments, PyObject* keywords);
struct PyMethodDef {
  const char* ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char* ml_doc;
};
inline constexpr int METH_VARARGS = 1, METH_KEYWORDS = 2, METH_NOARGS = 4;
// For ml_meth, with METH_KEYWORDS.
inline PyCFunction as_method(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Leaves in each of the two structures the functions that belong there.
#define PYTHON_WITHOUT_GIL_no_gil(...) __VA_ARGS__
#define PYTHON_WITHOUT_GIL_gil(...)
#define PYTHON_WITH_GIL_no_gil(...)
#define PYTHON_WITH_GIL_gil(...) __VA_ARGS__

// What any thread may use at any time. nullptr: this Python does not have it.
struct WithoutGil {
#define PYTHON_FUNCTION(gil, since, before, result, name, parameters) \
  PYTHON_WITHOUT_GIL_##gil(result(*name) parameters = nullptr;)
#define PYTHON_DATA(needed, type, name) type* name = nullptr;
#include "common/python_api.inc"
#undef PYTHON_DATA
#undef PYTHON_FUNCTION
};

// And what only a thread may call that holds the GIL.
struct Api : WithoutGil {
  const struct Layout* layout = nullptr;  // of its objects in memory; none: this version is not known
  bool free_threaded = false;  // there is none: holding it only says that this thread may use Python, others run on
#define PYTHON_FUNCTION(gil, since, before, result, name, parameters) \
  PYTHON_WITH_GIL_##gil(result(*name) parameters = nullptr;)
#define PYTHON_DATA(needed, type, name)
#include "common/python_api.inc"
#undef PYTHON_DATA
#undef PYTHON_FUNCTION
};

#undef PYTHON_WITHOUT_GIL_no_gil
#undef PYTHON_WITHOUT_GIL_gil
#undef PYTHON_WITH_GIL_no_gil
#undef PYTHON_WITH_GIL_gil

// Fills in the functions that find(name) knows: an address, or nullptr. False when one is missing that every version
// has.
template <class Find>
bool find_functions(Api& api, const Find& find) {
  constexpr int kOldest = 9;
  bool complete = true;
  const auto take = [&](auto& function, int since, const char* before, const char* name) {
    void* address = find(name);
    if (!address && *before) address = find(before);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (!address && (since <= kOldest || *before)) complete = false;
  };
#define PYTHON_FUNCTION(gil, since, before, result, name, parameters) take(api.name, since, before, #name);
#define PYTHON_DATA(needed, type, name)
#include "common/python_api.inc"
#undef PYTHON_DATA
#undef PYTHON_FUNCTION
  return complete;
}

// The same for the variables that are not known yet. False when one is missing that is needed.
template <class Find>
bool find_data(WithoutGil& api, const Find& find) {
  bool complete = true;
  const auto take = [&](auto*& variable, bool needed, const char* name) {
    if (!variable) variable = static_cast<std::remove_reference_t<decltype(variable)>>(find(name));
    if (!variable && needed) complete = false;
  };
#define PYTHON_FUNCTION(gil, since, before, result, name, parameters)
#define PYTHON_DATA(needed, type, name) take(api.name, needed, #name);
#include "common/python_api.inc"
#undef PYTHON_DATA
#undef PYTHON_FUNCTION
  return complete;
}

}  // namespace devtrace::python
