#include "tracker/python/find_python.h"

#include <optional>

#include "binary/elf/loaded.h"

namespace devtrace::python {

PythonFound find_python(Api& api) {
  std::optional<elf::Loaded> python;
  bool initialized = false;
  // Of the first object that defines each, which need not be Python's: a program that mentions PyCode_Type may hold it
  // itself (a copy relocation), and then Python uses the program's.
  WithoutGil data = {};
  bool all_data = false;
  elf::for_each_object([&](const elf::Object& object) {
    const elf::Loaded symbols(object);
    all_data = find_data(data, [&](const char* name) { return symbols.find(name); });
    if (initialized || !symbols.find("PyGILState_GetThisThreadState") || !symbols.find("Py_GetVersion")) return false;
    const auto is_initialized = reinterpret_cast<decltype(Api::Py_IsInitialized)>(symbols.find("Py_IsInitialized"));
    if (!is_initialized) return false;
    initialized = is_initialized() != 0;
    if (!python || initialized) python = symbols;
    return false;
  });
  api = {};
  if (!python) return PythonFound::nothing;
  static_cast<WithoutGil&>(api) = data;
  const bool all_functions = find_functions(api, [&](const char* name) { return python->find(name); });
  return all_functions && all_data ? PythonFound::complete : PythonFound::incomplete;
}

}  // namespace devtrace::python
