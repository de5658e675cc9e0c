// The CPython that this process may have: found in whichever object exports it, never linked.
#pragma once

#include "common/python_api.h"

namespace devtrace::python {

enum class PythonFound {
  nothing,
  incomplete,  // of the functions only Py_IsInitialized, Py_GetVersion and PyGILState_GetThisThreadState are certain
  complete,
};

// Fills `api` from the first loaded object that exports an initialised Python, otherwise from the first that exports
// one. Takes only the loader's short list lock; never calls malloc.
PythonFound find_python(Api& api);

}  // namespace devtrace::python
