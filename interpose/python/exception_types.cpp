#include "interpose/python/exception_types.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tracker/python/object_layout.h"
#include "tracker/python/safe_memory.h"

namespace devtrace::interpose {
namespace {

using python::Ref;

// The same in CPython 3.9 to 3.13; 3.14 makes exceptions by another way besides (tp_vectorcall), which is not replaced.
constexpr int kOldest = 9, kNewest = 13;
constexpr uint16_t kTypeNew = 312;
// Classes whose function has to be the same one: so it is what every class without one of its own has.
constexpr const char* kAlike[] = {"BaseException", "Exception", "RuntimeError", "ValueError", "TypeError"};

uintptr_t address(PyObject* object) {
  return reinterpret_cast<uintptr_t>(object);
}

// A free-threaded Python's objects are laid out otherwise.
bool known_version(const python::Api& api) {
  const std::string_view version = api.Py_GetVersion();
  if (!version.starts_with("3.") || version.find("free-threading") != version.npos) return false;
  const int minor = std::atoi(version.data() + 2);
  return minor >= kOldest && minor <= kNewest;
}

NewObject& new_of(PyObject* type) {
  return *reinterpret_cast<NewObject*>(address(type) + kTypeNew);
}

// Also of a class that Python code has given a function of that name.
std::vector<Ref> classes_below(const python::Api& api, PyObject* base) {
  const Ref subclasses = python::attribute(api, python::type_of(api, api.PyLong_Type).get(), "__subclasses__");
  std::vector<Ref> all;
  all.push_back(Ref::borrowed(api, base));
  for (size_t i = 0; subclasses && i < all.size(); ++i) {
    const Ref direct = python::call_with(api, subclasses.get(), all[i].get());
    for (ssize_t each = 0, n = direct ? api.PyList_Size(direct.get()) : 0; each < n; ++each)
      all.push_back(Ref::borrowed(api, api.PyList_GetItem(direct.get(), each)));
  }
  return all;
}

}  // namespace

bool replace_new_of_exceptions(const python::Api& api, NewObject replacement, NewObject& original) {
  if (!known_version(api)) return false;
  const Ref builtins = python::imported_module(api, "builtins");
  const python::SafeMemory memory;
  Ref base;
  uintptr_t common = 0;
  for (const char* name : kAlike) {
    Ref type = python::attribute(api, builtins.get(), name);
    uintptr_t function = 0;
    if (!type || !memory.read(address(type.get()) + kTypeNew, function) || function == 0) return false;
    if (common != 0 && function != common) return false;
    common = function;
    if (!base) base = std::move(type);
  }
  original = reinterpret_cast<NewObject>(common);
  for (const Ref& type : classes_below(api, base.get()))
    if (new_of(type.get()) == original) new_of(type.get()) = replacement;
  return true;
}

void restore_new_of_exceptions(const python::Api& api, NewObject replacement, NewObject original) {
  const Ref base = python::attribute(api, python::imported_module(api, "builtins").get(), kAlike[0]);
  if (!base) return;
  for (const Ref& type : classes_below(api, base.get()))
    if (new_of(type.get()) == replacement) new_of(type.get()) = original;
}

}  // namespace devtrace::interpose
