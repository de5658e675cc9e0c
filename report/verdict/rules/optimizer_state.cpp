// An optimizer keeps tensors beside each parameter, made where the parameter was at its first step or where a
// checkpoint was loaded.
#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {

namespace {

// The optimizer, when the tensor was found in its state: `opt` for `opt.state[…]["exp_avg"]`.
std::string_view owner_of(const Operand& operand) {
  const std::string_view name = operand.name;
  const size_t state = name.find(".state[");
  return state != name.npos && is_reference(name.substr(0, state)) ? name.substr(0, state) : std::string_view();
}

}  // namespace

std::optional<Cause> optimizer_state(const Evidence& evidence) {
  if (!evidence.passes_through("/torch/optim/")) return std::nullopt;
  const auto any = [](const Operand&) { return true; };
  auto pair = evidence.pair([](const Operand& it) { return !owner_of(it).empty(); }, any);
  const bool seen = static_cast<bool>(pair);
  if (!seen) pair = evidence.pair([](const Operand& it) { return !it.is_state(); }, any);
  if (!pair) return std::nullopt;

  Cause cause{
      "optimizer-state", seen ? Confidence::high : Confidence::medium,
      fmt::format(
          "The optimizer's {} meets {}: the parameter was moved after the optimizer's state was made or loaded.",
          with_place(*pair.it), with_place(*pair.other)),
      std::nullopt};
  // load_state_dict brings each state to its parameter's device. Which line moved the model is not in the evidence.
  if (seen) {
    cause.fix =
        Fix{fmt::format("{0}.load_state_dict({0}.state_dict())  # once, after the model was moved", owner_of(*pair.it)),
            {},
            0};
  }
  return cause;
}

}  // namespace devtrace::report::causes::rules
