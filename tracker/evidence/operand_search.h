// What everything looks at that finds an operation's operands, names them and says what stands around them.
#pragma once

#include <algorithm>
#include <vector>

#include "tracker/evidence/operands.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/evidence/stack_values.h"

namespace devtrace::evidence {

struct OperandSearch {
  const python::Api& api;
  const Torch& torch;
  const std::vector<Frame>& frames;
  const OperandQuery& query;
  const SourceText& source;
  const Scope& scope;
  const StackValues& stack;
  ObjectWalk& walk;
  Holders& holders;
};

// nullptr: it is none of them.
inline Operand* operand_of(std::vector<Operand>& operands, PyObject* tensor) {
  const auto found =
      std::find_if(operands.begin(), operands.end(), [&](const Operand& each) { return each.object == tensor; });
  return found == operands.end() ? nullptr : &*found;
}

inline bool any_object(const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Operand& each) { return each.object != nullptr; });
}

}  // namespace devtrace::evidence
