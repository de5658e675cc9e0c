#include "tracker/evidence/python_api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace devtrace::python {
namespace {

// A libpython that an embedding program opened RTLD_LOCAL is not in the global scope: then every loaded object is
// asked.
void* library_with_python() {
  if (::dlsym(RTLD_DEFAULT, "PyGILState_Ensure")) return RTLD_DEFAULT;
  void* found = nullptr;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (!info->dlpi_name || !std::strstr(info->dlpi_name, "libpython")) return 0;
        void* handle = ::dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
        if (handle && ::dlsym(handle, "PyGILState_Ensure")) *static_cast<void**>(out) = handle;
        return *static_cast<void**>(out) != nullptr ? 1 : 0;
      },
      &found);
  return found;
}

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

const Api* find_api() {
  void* library = library_with_python();
  if (!library && !::dlsym(RTLD_DEFAULT, "PyGILState_Ensure")) return nullptr;
  auto* api = new Api;
  bool complete = true;
#define API(type, name, parameters)   \
  look_up(library, #name, api->name); \
  complete = complete && api->name;
#include "tracker/evidence/python_api.inc"
#undef API
  look_up(library, "PyGC_Disable", api->PyGC_Disable);
  look_up(library, "PyGC_Enable", api->PyGC_Enable);
  if (complete) return api;
  delete api;
  return nullptr;
}

bool finalizing() {
  using Function = int (*)();
  // Renamed in 3.13.
  static const Function function = [] {
    Function found = nullptr;
    look_up(RTLD_DEFAULT, "Py_IsFinalizing", found);
    if (!found) look_up(RTLD_DEFAULT, "_Py_IsFinalizing", found);
    return found;
  }();
  return function && function();
}

constexpr unsigned long kListSubclass = 1UL << 25;
constexpr unsigned long kTupleSubclass = 1UL << 26;
constexpr unsigned long kUnicodeSubclass = 1UL << 28;
constexpr unsigned long kDictSubclass = 1UL << 29;

}  // namespace

const Api* api() {
  static const Api* const found = find_api();
  // PyGILState_Ensure on a finalizing interpreter never returns.
  return found && found->Py_IsInitialized() && !finalizing() ? found : nullptr;
}

Gil::Gil(const Api& api) : api_(api), state_(api.PyGILState_Ensure()) {
  api.PyErr_Fetch(&error_[0], &error_[1], &error_[2]);
  if (api.PyGC_Disable) collecting_ = api.PyGC_Disable();
}

Gil::~Gil() {
  if (collecting_) api_.PyGC_Enable();
  api_.PyErr_Restore(error_[0], error_[1], error_[2]);
  api_.PyGILState_Release(state_);
}

Ref attribute(const Api& api, PyObject* object, const char* name) {
  return object ? Ref(api, api.PyObject_GetAttrString(object, name)) : Ref();
}

Ref call(const Api& api, PyObject* callable) {
  return callable ? Ref(api, api.PyObject_CallObject(callable, nullptr)) : Ref();
}

Ref call_method(const Api& api, PyObject* object, const char* name) {
  return call(api, attribute(api, object, name).get());
}

Ref call_with(const Api& api, PyObject* callable, PyObject* argument) {
  if (!callable) return {};
  const Ref arguments(api, api.PyTuple_New(1));
  if (!arguments) return {};
  api.Py_IncRef(argument);
  api.PyTuple_SetItem(arguments.get(), 0, argument);  // takes the reference
  return Ref(api, api.PyObject_CallObject(callable, arguments.get()));
}

Ref type_of(const Api& api, PyObject* object) {
  return Ref(api, api.PyObject_Type(object));
}

std::string text(const Api& api, PyObject* unicode) {
  if (!unicode || shape_of(api, unicode) != Shape::unicode) return {};
  ssize_t size = 0;
  const char* data = api.PyUnicode_AsUTF8AndSize(unicode, &size);
  if (!data) {
    api.PyErr_Clear();  // lone surrogates
    return {};
  }
  return std::string(data, static_cast<size_t>(size));
}

std::string as_text(const Api& api, PyObject* object) {
  return object ? text(api, Ref(api, api.PyObject_Str(object)).get()) : std::string();
}

std::string type_name(const Api& api, PyObject* type) {
  return text(api, attribute(api, type, "__qualname__").get());
}

long long integer(const Api& api, PyObject* object, long long otherwise) {
  if (!object) return otherwise;
  const long long value = api.PyLong_AsLongLong(object);
  if (value == -1) api.PyErr_Clear();
  return value == -1 ? otherwise : value;
}

Shape shape_of(const Api& api, PyObject* object) {
  const unsigned long flags = api.PyType_GetFlags(type_of(api, object).get());
  if (flags & kUnicodeSubclass) return Shape::unicode;
  if (flags & kTupleSubclass) return Shape::tuple;
  if (flags & kListSubclass) return Shape::list;
  if (flags & kDictSubclass) return Shape::dict;
  return Shape::other;
}

Ref instance_dict(const Api& api, PyObject* object) {
  return Ref(api, api.PyObject_GenericGetDict(object, nullptr));
}

}  // namespace devtrace::python
