#include "tracker/evidence/stack_values.h"

#include "tracker/evidence/objects/torch_objects.h"

namespace devtrace::evidence {

using python::Api;
using python::Ref;

StackValues::StackValues(const Api& api, const std::vector<Frame>& frames) : api_(api) {
  if (frames.empty() || frames[0].compiled || !frames[0].reader) return;
  operands_ = python::operands_on_stack(api, *frames[0].reader, frames[0].live);
  PyObject* const callee = operands_ ? operands_->callee : nullptr;
  if (!callee || class_of(api, callee) != "builtin_function_or_method") return;
  python::Ref self = python::attribute(api, callee, "__self__");
  if (self && class_of(api, self.get()) != "module") bound_ = std::move(self);  // of a function: where it is defined
}

bool StackValues::calls_c_code() const {
  if (!operands_ || !operands_->callee) return false;
  const std::string kind = class_of(api_, operands_->callee);
  return kind == "builtin_function_or_method" || kind == "method_descriptor" || kind == "wrapper_descriptor" ||
         kind == "method-wrapper";
}

Ref StackValues::at(const std::vector<int>& place) const {
  if (!operands_ || place.empty()) return {};
  if (place[0] == Value::kReceiver) return Ref::borrowed(api_, receiver());
  if (static_cast<size_t>(place[0]) >= operands_->values.size()) return {};
  Ref object = Ref::borrowed(api_, operands_->values[static_cast<size_t>(place[0])]);
  for (size_t i = 1; object && i < place.size(); ++i) object = python::element(api_, object.get(), place[i]);
  return object;
}

}  // namespace devtrace::evidence
