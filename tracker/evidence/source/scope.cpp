#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

using python::Api;
using python::Ref;

Scope::Scope(const Api& api, const std::vector<Frame>& frames, ObjectWalk& walk)
    : api_(api), frames_(frames), walk_(walk) {
  for (const Frame& frame : frames_) locals_.push_back(frame.locals(api_));
}

Ref Scope::variable(size_t frame, const std::string& name) const {
  if (locals_[frame])
    if (Ref value(api_, api_.PyMapping_GetItemString(locals_[frame].get(), name.c_str())); value) return value;
  const Ref globals = frames_[frame].globals(api_);
  return python::entry(api_, globals.get(), name);
}

Scope::Found Scope::follow(const Path& path, size_t frame) const {
  const bool argument = frames_[frame].is_parameter(api_, path.variable);
  Found found{variable(frame, path.variable), argument ? "argument" : "variable"};
  for (size_t i = 0; found.value && i < path.steps.size(); ++i) {
    auto [inner, role] = walk_.step(found.value.get(), concrete(path.steps[i], frame));
    found = {std::move(inner), std::move(role)};
  }
  return found;
}

// `[layer]` with the variable's value in its place.
Step Scope::concrete(const Step& step, size_t frame) const {
  if (step.kind != Step::variable) return step;
  const Ref value = variable(frame, step.name);
  if (!value) return step;
  if (python::shape_of(api_, value.get()) == python::Shape::unicode)
    return {Step::key, python::text(api_, value.get()), 0};
  constexpr long long kNone = -1L << 40;
  const bool number = python::type_name(api_, python::type_of(api_, value.get()).get()) == "int";
  const long long position = number ? python::integer(api_, value.get(), kNone) : kNone;
  return position == kNone ? step : Step{Step::index, {}, static_cast<long>(position)};
}

}  // namespace devtrace::evidence
