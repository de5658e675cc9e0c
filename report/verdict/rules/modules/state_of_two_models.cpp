// Registered tensors on both sides, or what was computed from them: an average of a model's weights and the model, a
// part of one and a part of another.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> state_of_two_models(const Evidence& evidence) {
  const auto state = [](const Operand& it) { return it.came_from_state(); };
  const auto pair = evidence.pair(state, state);
  if (!pair) return std::nullopt;
  return Cause{
      "module-split-or-hook-missing", Confidence::medium,
      fmt::format("Both are state of modules, or were computed from it, and the modules are on different devices: "
                  "{} and {}.",
                  with_place(*pair.it), with_place(*pair.other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
