// What modules computed, on both sides: they lie on different devices.
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

const Operand& by_module(const Operand& it) {
  for (const Operand& source : it.computed_from)
    if (it.given_by.devices.empty() && source.came_from_a_module()) return by_module(source);
  return it;
}

std::string of_module(const Operand& it) {
  const auto& giver = by_module(it).given_by;
  return giver.devices.empty() ? "by a module" : fmt::format("by {}", giver.name);
}

}  // namespace

std::optional<Cause> results_apart(const Evidence& evidence) {
  const auto result = [](const Operand& it) { return it.came_from_a_module() && !it.came_from_state(); };
  const auto pair = evidence.pair(result, result);
  if (!pair) return std::nullopt;
  return Cause{
      "module-split-or-hook-missing", Confidence::low,
      fmt::format("{} was computed {} and {} {}: they are on different devices, and nothing moves what they give.",
                  with_place(*pair.it), of_module(*pair.it), with_place(*pair.other), of_module(*pair.other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
