// An optimizer keeps tensors beside each parameter, made where the parameter was at its first step or where a
// checkpoint was loaded.
#include <fmt/format.h>

#include "report/verdict/rules.h"

namespace devtrace::report::causes::rules {

std::optional<Cause> optimizer_state(const Evidence& evidence) {
  if (!evidence.passes_through("/torch/optim/")) return std::nullopt;
  const auto pair =
      evidence.pair([](const Operand& it) { return !it.is_state(); }, [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  return Cause{
      "optimizer-state", pair.other->is_state() ? Confidence::high : Confidence::medium,
      fmt::format(
          "The optimizer's {} meets {}: the parameter was moved after the optimizer's state was made or loaded.",
          with_place(*pair.it), with_place(*pair.other)),
      std::nullopt};
}

}  // namespace devtrace::report::causes::rules
