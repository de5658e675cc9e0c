#include "interpose/python/exception_types.h"

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tracker/python/safe_memory.h"

namespace devtrace::interpose {
namespace {

using python::Ref;

// Of a type; the same in CPython 3.9 to 3.15, but for Layout::extra_header.
constexpr uint16_t kTypeCall = 128, kTypeVectorcall = 400;
constexpr int kWithArray = 14;  // the first version whose exceptions are made by tp_vectorcall, too
// Classes whose functions have to be the same ones: so they are what every class without its own has.
using Names = std::initializer_list<std::pair<const char*, const char*>>;
constexpr Names kMetaclasses = {{"builtins", "type"}, {"abc", "ABCMeta"}};
constexpr Names kExceptions = {{"builtins", "BaseException"},
                               {"builtins", "Exception"},
                               {"builtins", "RuntimeError"},
                               {"builtins", "ValueError"},
                               {"builtins", "TypeError"}};

uintptr_t address(PyObject* object) {
  return reinterpret_cast<uintptr_t>(object);
}

template <class Function>
Function& slot(PyObject* type, const python::Layout& layout, uint16_t offset) {
  return *reinterpret_cast<Function*>(address(type) + offset + layout.extra_header);
}

std::vector<Ref> classes_named(const python::Api& api, Names names) {
  std::vector<Ref> found;
  for (const auto& [module, name] : names)
    found.push_back(python::attribute(api, python::imported_module(api, module).get(), name));
  return found;
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

// In the base and every class below it that has `from` there.
template <class Function>
void exchange(const python::Api& api, const python::Layout& layout, PyObject* base, uint16_t offset, Function from,
              Function to) {
  for (const Ref& type : classes_below(api, base)) {
    auto& function = slot<Function>(type.get(), layout, offset);
    if (function == from) function = to;
  }
}

}  // namespace

bool replace_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, MakeException& original) {
  const std::vector<Ref> metaclasses = classes_named(api, kMetaclasses), exceptions = classes_named(api, kExceptions);
  MakeException found;
  found.with_tuple = common<decltype(found.with_tuple)>(metaclasses, layout, kTypeCall);
  if (layout.minor >= kWithArray)
    found.with_array = common<decltype(found.with_array)>(exceptions, layout, kTypeVectorcall);
  if (!found.with_tuple || (layout.minor >= kWithArray && !found.with_array)) return false;
  if (found.with_tuple == replacement.with_tuple) return true;
  original = found;
  exchange(api, layout, metaclasses.front().get(), kTypeCall, original.with_tuple, replacement.with_tuple);
  if (original.with_array)
    exchange(api, layout, exceptions.front().get(), kTypeVectorcall, original.with_array, replacement.with_array);
  return true;
}

void restore_making_of_exceptions(const python::Api& api, const python::Layout& layout,
                                  const MakeException& replacement, const MakeException& original) {
  const std::vector<Ref> metaclasses = classes_named(api, kMetaclasses), exceptions = classes_named(api, kExceptions);
  if (!metaclasses.front() || !exceptions.front()) return;
  exchange(api, layout, metaclasses.front().get(), kTypeCall, replacement.with_tuple, original.with_tuple);
  if (original.with_array)
    exchange(api, layout, exceptions.front().get(), kTypeVectorcall, replacement.with_array, original.with_array);
}

}  // namespace devtrace::interpose
