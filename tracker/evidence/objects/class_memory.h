// What is known of a class, asked once: a finding looks at thousands of objects, of few classes.
#pragma once

#include <unordered_map>

#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// For as long as one Gil is held and no Python code runs: no class goes meanwhile. Without a GIL the thread's
// KeptReferences keep them.
template <class Fact>
class ClassMemory {
 public:
  explicit ClassMemory(const python::Api& api) : api_(api) {}

  // `ask` is given the object's class.
  template <class Ask>
  const Fact& of(PyObject* object, const Ask& ask) {
    const python::Ref type = python::type_of(api_, object);
    if (type.get() == last_) return *last_fact_;
    const auto [entry, fresh] = known_.try_emplace(type.get());
    if (fresh) entry->second = ask(type.get());
    last_ = type.get();
    last_fact_ = &entry->second;
    return entry->second;
  }

 private:
  const python::Api& api_;
  std::unordered_map<PyObject*, Fact> known_;
  const PyObject* last_ = nullptr;  // objects side by side are often alike
  const Fact* last_fact_ = nullptr;
};

// Of a class whose objects can hold no tensor: numbers, texts, classes, modules of Python and C functions.
bool holds_nothing(const python::Api& api, PyObject* type);

}  // namespace devtrace::evidence
