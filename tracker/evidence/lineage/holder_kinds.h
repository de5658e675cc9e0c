// How the object that has a tensor, as a batch, can be brought to another device.
#pragma once

#include <string>

#include "finding/finding.h"
#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/objects/class_memory.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// Asks each class once. Under the GIL; runs none of the program's code.
class HolderKinds {
 public:
  HolderKinds(const python::Api& api, const Torch& torch, const Scope& scope, const SourceText& source)
      : api_(api), torch_(torch), scope_(scope), source_(source), texts_(api), classes_(api) {}

  // Of what has the tensor under that name and is no module, `batch` of `batch.ids` and of `batch["ids"]`. "moves": its
  // class has a method `to` that gives a value. "frozen": its attributes cannot be assigned. "within": it is a dict or
  // a list of a variable that moves, `batch` of `batch.rows["ids"]`. Empty for anything else.
  std::string of(const finding::Name& name);

 private:
  struct Kind {
    bool moves = false, frozen = false;
  };
  Kind ask(PyObject* type);
  bool gives_a_value(PyObject* function);

  const python::Api& api_;
  const Torch& torch_;
  const Scope& scope_;
  const SourceText& source_;
  FunctionTexts texts_;
  ClassMemory<Kind> classes_;
};

}  // namespace devtrace::evidence
