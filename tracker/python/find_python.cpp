#include "tracker/python/find_python.h"

#include <link.h>

#include <optional>

#include "binary/elf/loaded.h"

namespace devtrace::python {

using namespace elf;
namespace {

struct Search {
  std::optional<Loaded> python;
  bool initialized = false;
  // Of the first object that defines each, which need not be Python's: a program that mentions PyCode_Type may hold it
  // itself (a copy relocation), and then Python uses the program's.
  WithoutGil data = {};
  bool all_data = false;
};

int look_into(dl_phdr_info* object, size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const Loaded symbols(*object);
  search.all_data = find_data(search.data, [&](const char* name) { return symbols.find(name); });
  if (search.initialized || !symbols.find("PyGILState_GetThisThreadState") || !symbols.find("Py_GetVersion")) return 0;
  const auto is_initialized = reinterpret_cast<decltype(Api::Py_IsInitialized)>(symbols.find("Py_IsInitialized"));
  if (!is_initialized) return 0;
  search.initialized = is_initialized() != 0;
  if (!search.python || search.initialized) search.python = symbols;
  return 0;
}

}  // namespace

Found find_python(Api& api) {
  Search search;
  dl_iterate_phdr(look_into, &search);
  api = {};
  if (!search.python) return Found::nothing;
  static_cast<WithoutGil&>(api) = search.data;
  const bool all_functions = find_functions(api, [&](const char* name) { return search.python->find(name); });
  return all_functions && search.all_data ? Found::complete : Found::incomplete;
}

}  // namespace devtrace::python
