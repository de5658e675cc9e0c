#include "tracker/python/python_api.h"

#include <atomic>
#include <memory>

#include "tracker/python/find_python.h"

namespace devtrace::python {
namespace {

// Nothing where there is no Python yet, or one without all of it.
std::unique_ptr<const Api> find_api() {
  auto api = std::make_unique<Api>();
  return find_python(*api) == Found::complete && api->Py_IsInitialized() ? std::move(api) : nullptr;
}

constexpr unsigned long kListSubclass = 1UL << 25;
constexpr unsigned long kTupleSubclass = 1UL << 26;
constexpr unsigned long kUnicodeSubclass = 1UL << 28;
constexpr unsigned long kDictSubclass = 1UL << 29;

}  // namespace

const Api* api() {
  // Kept once a Python has begun: a program may start it long after its first error. Never freed: other threads use it.
  static constinit std::atomic<const Api*> known{nullptr};
  const Api* api = known.load(std::memory_order_acquire);
  if (!api) {
    auto found = find_api();
    if (!found) return nullptr;
    if (known.compare_exchange_strong(api, found.get(), std::memory_order_acq_rel)) api = found.release();
  }
  // PyGILState_Ensure on a finalizing interpreter never returns.
  return api->Py_IsInitialized() && !api->Py_IsFinalizing() ? api : nullptr;
}

// PyGILState_Check answers yes to everybody once there was a second interpreter.
bool holds_gil(const Api& api) {
  void* mine = api.PyGILState_GetThisThreadState();
  return mine != nullptr && mine == api.PyThreadState_GetUnchecked() &&
         api.PyInterpreterState_Get() == api.PyInterpreterState_Main();
}

bool handles_exception(const Api& api) {
  PyObject* handled[3] = {};  // type, value, traceback; no value, or None, where there is none
  api.PyErr_GetExcInfo(&handled[0], &handled[1], &handled[2]);
  const bool any = handled[1] && handled[1] != api._Py_NoneStruct;
  for (PyObject* each : handled)
    if (each) api.Py_DecRef(each);
  return any;
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

Ref imported_module(const Api& api, const char* name) {
  PyObject* modules = api.PyImport_GetModuleDict();
  return modules ? Ref::borrowed(api, api.PyDict_GetItemString(modules, name)) : Ref();
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
