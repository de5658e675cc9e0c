// A device kept in an attribute: .to() of the model changes the model and not what somebody wrote down about it.
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> kept_device(const Evidence& evidence) {
  const Operand *it = nullptr, *other = nullptr;
  for (const Operand& one : evidence.operands)
    for (const Operand& two : evidence.operands)
      if (!it && one.device != two.device && by_a_stale_device(one, two)) it = &one, other = &two;
  if (!it) return std::nullopt;
  const auto& kept = it->origin().device_from;
  const bool module = kept.kind == "module";
  return Cause{
      module ? "state-not-registered" : "cached-state-elsewhere", Confidence::medium,
      fmt::format("{} lies where {} says, a plain attribute of {} that no .to() changes, and {} was moved away from "
                  "there: {}.",
                  with_place(it->origin()), kept.name, kept.type,
                  module ? "the module itself" : std::string(other->name), with_place(*other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
