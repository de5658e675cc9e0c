#include "tracker/python/reader_api.h"

#include <link.h>

namespace devtrace::stacks {
namespace {

template <class T>
bool take(const DynamicSymbols& symbols, T& target, const char* name) {
  target = reinterpret_cast<T>(symbols.find(name));
  return target != nullptr;
}

// False when the object holds no Python.
bool take_functions(const DynamicSymbols& symbols, PythonApi& api) {
  if (!take(symbols, api.this_thread_state, "PyGILState_GetThisThreadState") ||
      !take(symbols, api.get_version, "Py_GetVersion") || !take(symbols, api.is_initialized, "Py_IsInitialized")) {
    return false;
  }
  take(symbols, api.disable_gc, "PyGC_Disable");
  take(symbols, api.enable_gc, "PyGC_Enable");
  api.complete = (take(symbols, api.is_finalizing, "_Py_IsFinalizing") ||  // up to 3.12
                  take(symbols, api.is_finalizing, "Py_IsFinalizing")) &&
                 take(symbols, api.add_pending_call, "Py_AddPendingCall") &&
                 take(symbols, api.current_frame, "PyEval_GetFrame") &&
                 take(symbols, api.frame_back, "PyFrame_GetBack") && take(symbols, api.frame_code, "PyFrame_GetCode") &&
                 take(symbols, api.frame_line, "PyFrame_GetLineNumber") &&
                 take(symbols, api.attribute, "PyObject_GetAttrString") &&
                 take(symbols, api.utf8, "PyUnicode_AsUTF8AndSize") && take(symbols, api.increment, "Py_IncRef") &&
                 take(symbols, api.decrement, "Py_DecRef") && take(symbols, api.clear_error, "PyErr_Clear");
  return true;
}

// Variables are in the first object that defines them, which need not be Python's: a program that mentions PyCode_Type
// may hold it itself (a copy relocation), and then Python uses the program's.
void take_variables(const DynamicSymbols& symbols, PythonApi& api) {
  const auto first = [&](auto& target, const char* name) {
    if (target == nullptr) take(symbols, target, name);
  };
  first(api.code_type, "PyCode_Type");
  first(api.str_type, "PyUnicode_Type");
  first(api.bytes_type, "PyBytes_Type");
  first(api.cell_type, "PyCell_Type");
  first(api.runtime, "_PyRuntime");
}

struct Search {
  std::optional<DynamicSymbols> python;
  bool initialized = false;
  PythonApi variables = {};
};

int look_into(dl_phdr_info* object, size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const DynamicSymbols symbols(*object);
  take_variables(symbols, search.variables);
  PythonApi functions = {};
  if (search.initialized || !take_functions(symbols, functions)) return 0;
  search.initialized = functions.is_initialized() != 0;
  if (!search.python || search.initialized) search.python = symbols;
  return 0;
}

Search search_objects() {
  Search search;
  dl_iterate_phdr(look_into, &search);
  return search;
}

}  // namespace

std::optional<DynamicSymbols> python_symbols() {
  return search_objects().python;
}

bool find_python(PythonApi& api) {
  const Search search = search_objects();
  api = {};
  if (search.python) take_functions(*search.python, api);
  api.code_type = search.variables.code_type;
  api.str_type = search.variables.str_type;
  api.bytes_type = search.variables.bytes_type;
  api.cell_type = search.variables.cell_type;
  api.runtime = search.variables.runtime;
  api.complete = api.complete && api.code_type != nullptr && api.str_type != nullptr && api.bytes_type != nullptr;
  return search.python.has_value();
}

}  // namespace devtrace::stacks
