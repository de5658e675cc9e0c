// Tensors that can be reached from a Python value by names, without running any Python code.
#pragma once

#include <functional>
#include <string>

#include "tracker/evidence/objects/class_memory.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/evidence/source/expression.h"

namespace devtrace::evidence {

// What a value was reached through, from the outside in.
struct ReachedObject {
  PyObject* object;
  std::string name;  // `encoded["input_ids"]`, `self.weight`
  std::string role;  // parameter, buffer, attribute, element; empty for the starting value itself
};

class ObjectWalk {
 public:
  ObjectWalk(const python::Api& api, const Torch& torch) : api_(api), torch_(torch), entered_(api) {}

  // Calls `visit` for every tensor and every module found in `object`: itself, elements of lists, tuples and dicts,
  // and, when `attributes` is set, the instance's own attributes. Containers are entered to `depth`; modules are not
  // entered.
  void walk(PyObject* object, const std::string& name, int depth, bool attributes,
            const std::function<void(const ReachedObject&)>& visit);

  // Calls `visit` for every parameter and buffer of a module, with its dotted path as name.
  // `visit` gets the owning module too; it returns false to stop.
  using VisitState = std::function<bool(const ReachedObject&, PyObject* owner)>;
  bool module_state(PyObject* module, const std::string& prefix, const VisitState& visit, int depth = 0);

  // … for what a module has besides, and what that holds, to `depth` as above.
  void module_attributes(PyObject* module, const std::string& name, int depth,
                         const std::function<void(const ReachedObject&)>& visit);

  // The value one step from `object`, with the role that gives it. Empty when it cannot be reached without running
  // code.
  std::pair<python::Ref, std::string> step(PyObject* object, const Step& step);

 private:
  // Can an object of this class hold others?
  bool worth_entering(PyObject* object);
  template <class NameOf>
  void enter(PyObject* value, const char* role, int depth, const NameOf& name_of,
             const std::function<void(const ReachedObject&)>& visit);

  const python::Api& api_;
  const Torch& torch_;
  size_t budget_ = 50000;  // values still to be looked at, over all walks: a finding must stay milliseconds
  ClassMemory<bool> entered_;
};

}  // namespace devtrace::evidence
