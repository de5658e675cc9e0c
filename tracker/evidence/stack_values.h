// The values that the interpreter gave the operation which the innermost frame asked for, by their places in its text.
#pragma once

#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/source/expression.h"
#include "tracker/python/objects/value_stack.h"

namespace devtrace::evidence {

// Of the innermost frame only. Under the GIL, while the operation is under way.
class StackValues {
 public:
  // `raised`: an exception is being made. Before 3.12 that may be after the instruction, which has given up its
  // operands.
  StackValues(const python::Api& api, const std::vector<Frame>& frames, bool raised = false);

  bool known() const { return operands_.has_value(); }
  // Is the instruction a call of something written in C, and not of a class? Before 3.12 an error that C code has set
  // becomes an exception only when it has come back to the frame that called.
  bool calls_c_code() const { return calls_c_code_; }
  // What is at the place of a value (Value::place); empty where it is not known.
  python::Ref at(const std::vector<int>& place) const;
  // Can it be the operation that is under way: is it a call if that is one, and does what its paths lead to stand where
  // it should? `follow` gives the object of a path, or nothing.
  template <class Follow>
  bool agree(const Operation& operation, const Follow& follow) const {
    const bool call = operands_->callee != nullptr;
    if (call ? !operation.callee && !operation.hidden : operation.callee.has_value()) return false;
    for (const Value& value : operation.given) {
      const python::Ref given = at(value.place);
      if (!value.path || value.place.empty()) continue;
      const bool apart = value.place[0] == Value::kReceiver;  // which a function of a module does not have
      if (const python::Ref object = follow(*value.path); object && object.get() != given.get() && (given || !apart))
        return false;
    }
    return true;
  }
  // All of them, what a method was called on first.
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (!operands_) return;
    if (PyObject* object = receiver()) visit(object);
    for (PyObject* value : operands_->values) visit(value);
  }

 private:
  PyObject* receiver() const { return operands_->receiver ? operands_->receiver : bound_.get(); }

  const python::Api& api_;
  std::optional<python::StackOperands> operands_;
  python::Ref bound_;  // of a built-in method that was bound before
  bool calls_c_code_ = false;
};

}  // namespace devtrace::evidence
