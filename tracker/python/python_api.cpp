#include "tracker/python/python_api.h"

#include <atomic>
#include <cstring>
#include <memory>

#include "binary/elf/loaded_objects.h"
#include "tracker/python/find_python.h"
#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/layout.h"
#include "tracker/python/objects/object_layout.h"
#include "tracker/python/objects/string_decoder.h"
#include "tracker/python/version.h"

namespace devtrace::python {
namespace {

// Nothing where there is no Python yet, or one without all of it.
std::unique_ptr<const Api> find_api() {
  auto api = std::make_unique<Api>();
  if (find_python(*api) != PythonFound::complete || !api->Py_IsInitialized()) return nullptr;
  const Version version = version_of(api->Py_GetVersion());
  api->free_threaded = version.free_threaded;
  api->layout = layout_of(version.minor, version.free_threaded);
  return api;
}

constexpr unsigned long kImmutableType = 1UL << 8;  // since 3.10, of classes that extensions make
constexpr unsigned long kHeapType = 1UL << 9;
constexpr unsigned long kIntSubclass = 1UL << 24;
constexpr unsigned long kListSubclass = 1UL << 25;
constexpr unsigned long kTupleSubclass = 1UL << 26;
constexpr unsigned long kUnicodeSubclass = 1UL << 28;
constexpr unsigned long kDictSubclass = 1UL << 29;
constexpr unsigned long kTypeSubclass = 1UL << 31;

// What `type` itself says of a class, whatever the class's own metaclass would.
Ref of_class(const Api& api, PyObject* type, const char* name) {
  const Ref metaclass(api, api.PyObject_Type(api.PyLong_Type));
  const Ref names(api, api.PyObject_GetAttrString(metaclass.get(), "__dict__"));
  const Ref descriptor = names ? Ref(api, api.PyMapping_GetItemString(names.get(), name)) : Ref();
  const Ref get = descriptor ? Ref(api, api.PyObject_GetAttrString(descriptor.get(), "__get__")) : Ref();
  return call_with(api, get.get(), type);
}

template <class T = uintptr_t>
T at(uintptr_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}
// Of an object whose version's layout is known, behind its head.
template <class T = uintptr_t>
T field(const Api& api, const PyObject* object, uint16_t offset) {
  return at<T>(reinterpret_cast<uintptr_t>(object) + offset + api.layout->extra_header);
}
// Under a GIL nobody changes what is read.
bool readable(const Api& api) {
  return api.layout && !api.free_threaded;
}

// As it stands in the first of its bases that has it. Static classes have no dict of their own from 3.12 on.
Ref stored_in_class(const Api& api, PyObject* type, const char* name) {
  const Ref bases = bases_of(api, type);
  for (ssize_t i = 0, n = bases ? api.PyTuple_Size(bases.get()) : 0; i < n; ++i) {
    PyObject* const base = api.PyTuple_GetItem(bases.get(), i);
    if (auto* const dict = readable(api) ? field<PyObject*>(api, base, kTypeDict) : nullptr) {
      if (PyObject* const value = api.PyDict_GetItemString(dict, name)) return Ref::borrowed(api, value);
      continue;
    }
    const Ref names = dict_of_class(api, base);
    if (!names) continue;
    if (Ref value(api, api.PyMapping_GetItemString(names.get(), name)); value) return value;
  }
  return {};
}

// A str whose characters are ASCII, in the object itself: where they are.
std::optional<std::string_view> ascii_of(const Api& api, const PyObject* text) {
  if (!api.layout) return std::nullopt;
  const uint32_t compact_ascii = 0x18u << api.layout->str_kind;
  if ((field<uint32_t>(api, text, kStrState) & compact_ascii) != compact_ascii) return std::nullopt;
  const auto length = field<ssize_t>(api, text, kStrLength);
  return std::string_view(reinterpret_cast<const char*>(text) + api.layout->ascii_payload, static_cast<size_t>(length));
}

// Where an instance has its attributes while nobody has asked for its dict; 0: it has none yet. Nothing where it has a
// dict, or is not laid out so. From 3.13 on a dict uses the same values.
std::optional<uintptr_t> values_without_dict(const Api& api, PyObject* object) {
  const ObjectLayout* const layout = readable(api) ? object_layout_of(*api.layout) : nullptr;
  if (!layout || !(api.PyType_GetFlags(type_of(api, object).get()) & kManagedDictFlag)) return std::nullopt;
  const uintptr_t before = reinterpret_cast<uintptr_t>(object) - layout->before_object, found = at(before);
  if (layout->instances == Instances::two_pointers && found == 0) return at(before - sizeof(uintptr_t));
  if (layout->instances == Instances::tagged_pointer && (found == 0 || found & 1)) return found ? found + 1 : 0;
  return std::nullopt;
}

// A class's instances share a table of names: indices, then pairs of which the first is the name.
Ref copy_of_values(const Api& api, PyObject* type, uintptr_t values) {
  constexpr size_t kPair = 2 * sizeof(uintptr_t);
  const ObjectLayout& layout = *object_layout_of(*api.layout);
  Ref copy(api, api.PyDict_New());
  const uintptr_t keys = at(reinterpret_cast<uintptr_t>(type) + layout.cached_keys);
  if (!copy || keys == 0 || values == 0) return copy;
  const uintptr_t names = keys + layout.keys_indices + (size_t{1} << at<uint8_t>(keys + kKeysIndexBytes));
  const auto count = static_cast<size_t>(at<int64_t>(keys + layout.keys_entries));
  for (size_t i = 0; i < count; ++i)
    if (auto* const value = at<PyObject*>(values + layout.values + i * sizeof(uintptr_t)))
      if (api.PyDict_SetItem(copy.get(), at<PyObject*>(names + i * kPair), value) != 0) api.PyErr_Clear();
  return copy;
}

std::string builtin_name(const Api& api, PyObject* object) {
  const Ref type = type_of(api, object);
  return is_builtin(api, type.get()) ? type_name(api, type.get()) : std::string();
}

// What one of C's descriptors says for an object; the value itself where it is none.
Ref value_for(const Api& api, Ref stored, PyObject* object) {
  const std::string kind = builtin_name(api, stored.get());
  if (kind == "member_descriptor" || kind == "getset_descriptor" || kind == "_tuplegetter")
    return call_with(api, Ref(api, api.PyObject_GetAttrString(stored.get(), "__get__")).get(), object);
  if (kind != "property") return stored;
  const Ref function(api, api.PyObject_GetAttrString(stored.get(), "fget"));
  const std::string of = function ? builtin_name(api, function.get()) : std::string();
  return of == "builtin_function_or_method" || of == "instancemethod" ? call_with(api, function.get(), object) : Ref();
}

}  // namespace

const Api* api() {
  // Kept once a Python has begun: a program may start it long after its first error. Never freed: other threads use it.
  static constinit std::atomic<const Api*> known{nullptr};
  static constinit std::atomic<unsigned long long> unloaded_then{0};
  // A program that embeds Python may close its library again, and open another.
  if (const auto unloaded = elf::unloaded_objects(); unloaded_then.exchange(unloaded) != unloaded) known.store(nullptr);
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

std::optional<uint16_t> extra_header(const Api& api) {
  if (!api.free_threaded) return 0;
  const Layout* const layout = layout_of(version_of(api.Py_GetVersion()).minor, true);
  return layout ? std::optional(layout->extra_header) : std::nullopt;
}

std::optional<std::string> handled_exception(const Api& api) {
  PyObject* handled[3] = {};  // type, value, traceback; no value, or None, where there is none
  api.PyErr_GetExcInfo(&handled[0], &handled[1], &handled[2]);
  std::optional<std::string> said;
  if (handled[1] && handled[1] != api._Py_NoneStruct) {
    const Ref arguments = attribute(api, handled[1], "args");
    const bool any =
        arguments && shape_of(api, arguments.get()) == Shape::tuple && api.PyTuple_Size(arguments.get()) > 0;
    said = any ? text(api, api.PyTuple_GetItem(arguments.get(), 0)) : std::string();
  }
  for (PyObject* each : handled)
    if (each) api.Py_DecRef(each);
  return said;
}

Gil::Gil(const Api& api) : api_(api), state_(api.PyGILState_Ensure()) {
  api.PyErr_Fetch(&error_[0], &error_[1], &error_[2]);
  // Without a GIL another thread may turn it on or off meanwhile. Such a Python collects between instructions only.
  if (api.PyGC_Disable && !api.free_threaded) collecting_ = api.PyGC_Disable();
}

Gil::~Gil() {
  if (collecting_) api_.PyGC_Enable();
  api_.PyErr_Restore(error_[0], error_[1], error_[2]);
  api_.PyGILState_Release(state_);
}

Ref dict_of_class(const Api& api, PyObject* type) {
  return of_class(api, type, "__dict__");
}

Ref attribute(const Api& api, PyObject* object, const char* name) {
  if (!object) return {};
  const Ref type = type_of(api, object);
  if (api.PyType_GetFlags(type.get()) & kTypeSubclass) return stored_in_class(api, object, name);
  const bool builtin = is_builtin(api, type.get());
  const bool module = builtin && type_name(api, type.get()) == "module";
  if (builtin && !module) return Ref(api, api.PyObject_GetAttrString(object, name));
  if (const Ref own = instance_dict(api, object))
    if (Ref value = entry(api, own.get(), name)) return value;
  if (module) return {};
  Ref stored = stored_in_class(api, type.get(), name);
  return stored ? value_for(api, std::move(stored), object) : Ref();
}

Ref entry(const Api& api, PyObject* dict, std::string_view name) {
  if (!dict || shape_of(api, dict) != Shape::dict) return {};
  for (DictEntries each(api, dict); each.next();) {
    if (shape_of(api, each.key()) != Shape::unicode) continue;
    const std::optional<std::string_view> ascii = ascii_of(api, each.key());
    if (ascii ? *ascii == name : text(api, each.key()) == name) return Ref::borrowed(api, each.value());
  }
  return {};
}

Ref element(const Api& api, PyObject* sequence, ssize_t index) {
  const Shape shape = sequence ? shape_of(api, sequence) : Shape::other;
  if (shape == Shape::tuple && index < api.PyTuple_Size(sequence))
    return Ref::borrowed(api, api.PyTuple_GetItem(sequence, index));
  if (shape != Shape::list || index >= api.PyList_Size(sequence)) return {};
  if (api.PyList_GetItemRef) return Ref(api, api.PyList_GetItemRef(sequence, index));  // empty: it is shorter by now
  return Ref::borrowed(api, api.PyList_GetItem(sequence, index));
}

Ref bases_of(const Api& api, PyObject* type) {
  if (auto* const bases = readable(api) ? field<PyObject*>(api, type, kTypeBases) : nullptr)
    return Ref::borrowed(api, bases);
  return of_class(api, type, "__mro__");
}

bool is_builtin(const Api& api, PyObject* type) {
  const unsigned long flags = api.PyType_GetFlags(type);
  return !(flags & kHeapType) || (flags & kImmutableType);
}

bool is_class(const Api& api, PyObject* object) {
  constexpr unsigned long kTypeSubclass = 1ul << 31;
  return api.PyType_GetFlags(type_of(api, object).get()) & kTypeSubclass;
}

bool is_true(const Api& api, PyObject* object) {
  return object && type_of(api, object).get() == api.PyBool_Type && api.PyLong_AsLong(object) == 1;
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

// The object keeps the UTF-8 and is larger from then on; a lone surrogate raises.
static std::string text_by_python(const Api& api, PyObject* unicode) {
  ssize_t size = 0;
  const char* data = api.PyUnicode_AsUTF8AndSize(unicode, &size);
  if (data) return std::string(data, static_cast<size_t>(size));
  api.PyErr_Clear();
  return {};
}

std::string text(const Api& api, PyObject* unicode) {
  if (!unicode || shape_of(api, unicode) != Shape::unicode) return {};
  if (!api.layout) return text_by_python(api, unicode);
  if (const std::optional<std::string_view> ascii = ascii_of(api, unicode)) return std::string(*ascii);
  ssize_t characters = 0;
  std::memcpy(&characters, reinterpret_cast<const char*>(unicode) + kStrLength + api.layout->extra_header,
              sizeof characters);
  constexpr size_t kMostBytes = 4;  // of a character
  std::string text(static_cast<size_t>(characters) * kMostBytes, '\0');
  text.resize(read_str(*api.layout, unicode, text.data(), text.size()));
  return text;
}

std::string as_text(const Api& api, PyObject* object) {
  if (!object) return {};
  if (shape_of(api, object) == Shape::unicode) return text(api, object);
  if (!is_builtin(api, type_of(api, object).get())) return {};
  return text(api, Ref(api, api.PyObject_Str(object)).get());
}

std::string type_name(const Api& api, PyObject* type) {
  if (api.PyType_GetQualName) return text(api, Ref(api, api.PyType_GetQualName(type)).get());
  return text(api, of_class(api, type, "__qualname__").get());
}

Ref imported_module(const Api& api, const char* name) {
  PyObject* modules = api.PyImport_GetModuleDict();
  if (!modules) return {};
  if (!api.PyDict_GetItemStringRef) return Ref::borrowed(api, api.PyDict_GetItemString(modules, name));
  PyObject* found = nullptr;
  api.PyDict_GetItemStringRef(modules, name, &found);
  return Ref(api, found);
}

bool is_module_class(const Api& api, PyObject* type) {
  const Ref any = imported_module(api, "builtins");
  return any && api.PyType_IsSubtype(type, type_of(api, any.get()).get());
}

long long integer(const Api& api, PyObject* object, long long otherwise) {
  if (!object || !(api.PyType_GetFlags(type_of(api, object).get()) & kIntSubclass)) return otherwise;
  const long long value = api.PyLong_AsLongLong(object);
  if (value == -1) api.PyErr_Clear();
  return value == -1 ? otherwise : value;
}

Shape shape_of(const Api& api, PyObject* object) {
  const unsigned long flags = readable(api) ? api.PyType_GetFlags(field<PyObject*>(api, object, kObjectType))
                                            : api.PyType_GetFlags(type_of(api, object).get());
  if (flags & kUnicodeSubclass) return Shape::unicode;
  if (flags & kTupleSubclass) return Shape::tuple;
  if (flags & kListSubclass) return Shape::list;
  if (flags & kDictSubclass) return Shape::dict;
  return Shape::other;
}

Ref instance_dict(const Api& api, PyObject* object) {
  if (const auto values = values_without_dict(api, object))
    return copy_of_values(api, type_of(api, object).get(), *values);
  return Ref(api, api.PyObject_GenericGetDict(object, nullptr));
}

}  // namespace devtrace::python
