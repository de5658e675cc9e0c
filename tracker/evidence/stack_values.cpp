#include "tracker/evidence/stack_values.h"

#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/python/objects/objects.h"

namespace devtrace::evidence {

using python::Api;
using python::Ref;

namespace {

bool is_c_code(const std::string& kind) {
  return kind == "builtin_function_or_method" || kind == "method_descriptor" || kind == "wrapper_descriptor" ||
         kind == "method-wrapper";
}

// Of a class: `raise Error(...)` makes the exception itself, and has what it is made of.
bool makes_exception(const python::PythonReader& reader, PyObject* callee) {
  const python::Objects objects(reader, *python::object_layout_of(reader.layout));
  const auto address = reinterpret_cast<uintptr_t>(callee);
  return (objects.flags_of_type(objects.type_of(address)) & python::kTypeFlag) &&
         (objects.flags_of_type(address) & python::kExceptionFlag);
}

}  // namespace

StackValues::StackValues(const Api& api, const std::vector<Frame>& frames, bool raised) : api_(api) {
  if (frames.empty() || frames[0].compiled || !frames[0].reader) return;
  const python::PythonReader& reader = *frames[0].reader;
  operands_ = python::operands_on_stack(api, reader, frames[0].live);
  PyObject* const callee = operands_ ? operands_->callee : nullptr;
  const std::string kind = callee ? class_of(api, callee) : std::string();
  calls_c_code_ = is_c_code(kind);
  constexpr int kRaisesAtOnce = 12;
  if (raised && reader.layout.minor < kRaisesAtOnce && !(callee && makes_exception(reader, callee))) operands_.reset();
  if (!operands_ || kind != "builtin_function_or_method") return;
  python::Ref self = python::attribute(api, callee, "__self__");
  if (self && class_of(api, self.get()) != "module") bound_ = std::move(self);  // of a function: where it is defined
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
