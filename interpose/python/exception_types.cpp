#include "interpose/python/exception_types.h"

#include <cstdint>
#include <vector>

#include "tracker/python/safe_memory.h"

namespace devtrace::interpose {
namespace {

using python::Ref;

// Of a type; the same in CPython 3.9 to 3.15, but for Layout::extra_header.
constexpr uint16_t kTypeNew = 312, kTypeVectorcall = 400;
constexpr int kWithArray = 14;  // the first version whose exceptions are made by tp_vectorcall, too
// Classes whose functions have to be the same ones: so they are what every class without its own has.
constexpr const char* kAlike[] = {"BaseException", "Exception", "RuntimeError", "ValueError", "TypeError"};

uintptr_t address(PyObject* object) {
  return reinterpret_cast<uintptr_t>(object);
}

template <class Function>
Function& slot(PyObject* type, const python::Layout& layout, uint16_t offset) {
  return *reinterpret_cast<Function*>(address(type) + offset + layout.extra_header);
}

// What all of the classes have there; nullptr: they differ, or have nothing.
template <class Function>
Function common(const std::vector<Ref>& types, const python::Layout& layout, uint16_t offset) {
  const python::SafeMemory memory;
  uintptr_t first = 0;
  for (const Ref& type : types) {
    uintptr_t function = 0;
    if (!type || !memory.read(address(type.get()) + offset + layout.extra_header, function)) return nullptr;
    if (function == 0 || (first != 0 && function != first)) return nullptr;
    first = function;
  }
  return reinterpret_cast<Function>(first);
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

bool replace_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, MakeException& original) {
  const Ref builtins = python::imported_module(api, "builtins");
  std::vector<Ref> alike;
  for (const char* name : kAlike) alike.push_back(python::attribute(api, builtins.get(), name));
  MakeException found;
  found.with_tuple = common<decltype(found.with_tuple)>(alike, layout, kTypeNew);
  if (!found.with_tuple) return false;
  if (layout.minor >= kWithArray) {
    found.with_array = common<decltype(found.with_array)>(alike, layout, kTypeVectorcall);
    if (!found.with_array) return false;
  }
  original = found;
  for (const Ref& type : classes_below(api, alike.front().get())) {
    auto& with_tuple = slot<decltype(found.with_tuple)>(type.get(), layout, kTypeNew);
    if (with_tuple == found.with_tuple) with_tuple = replacement.with_tuple;
    if (!found.with_array) continue;
    auto& with_array = slot<decltype(found.with_array)>(type.get(), layout, kTypeVectorcall);
    if (with_array == found.with_array) with_array = replacement.with_array;
  }
  return true;
}

void restore_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, const MakeException& original) {
  const Ref base = python::attribute(api, python::imported_module(api, "builtins").get(), kAlike[0]);
  if (!base) return;
  for (const Ref& type : classes_below(api, base.get())) {
    auto& with_tuple = slot<decltype(original.with_tuple)>(type.get(), layout, kTypeNew);
    if (with_tuple == replacement.with_tuple) with_tuple = original.with_tuple;
    if (!original.with_array) continue;
    auto& with_array = slot<decltype(original.with_array)>(type.get(), layout, kTypeVectorcall);
    if (with_array == replacement.with_array) with_array = original.with_array;
  }
}

}  // namespace devtrace::interpose
