// One tensor under two names of a model (an embedding and the output layer): it lies on one device only, and the second
// user may be on another. accelerate's dispatch and Module.to() of a part both move it away from one of its users.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

// A tensor's name in two parts of one object: `self` and `weight` of "self.lm_head.weight". Empty for a shorter name: a
// module that is a variable has its parts' tensors under a second name, which is no second module.
struct Ends {
  std::string_view root, tensor;
  explicit Ends(std::string_view name) {
    const size_t first = name.find('.'), last = name.rfind('.');
    if (first == last) return;
    root = name.substr(0, first);
    tensor = name.substr(last + 1);
  }
  bool operator==(const Ends&) const = default;
};

// The two names that one frame has for it, where these are of two modules' state.
std::optional<std::pair<std::string_view, std::string_view>> both_names(const Operand& operand) {
  if (!operand.is_state()) return std::nullopt;
  for (const finding::Name& first : operand.names)
    for (const finding::Name& second : operand.names)
      if (first.frame == second.frame && first.name < second.name && !Ends(first.name).root.empty() &&
          Ends(first.name) == Ends(second.name))
        return std::pair<std::string_view, std::string_view>(first.name, second.name);
  return std::nullopt;
}

}  // namespace

std::optional<Cause> tied_weights(const Evidence& evidence) {
  const auto pair =
      evidence.pair([](const Operand& it) { return both_names(it).has_value(); },
                    [&](const Operand& other) { return !other.is_of_state() && evidence.made_inside_model(other); });
  if (!pair) return std::nullopt;
  const auto [first, second] = *both_names(*pair.it);
  const Frame* made = pair.other->created.stack.empty() ? nullptr : &pair.other->created.stack.front();
  const bool by_a_layer = made && made->file.find("/torch/nn/") != made->file.npos;
  return Cause{
      "tied-weights", by_a_layer ? Confidence::high : Confidence::medium,
      fmt::format("{} and {} are one tensor, which lies on {} only, and {} comes to it on {}: the parts of the "
                  "model that share it are on different devices.",
                  first, second, pair.it->device, pair.other->name, pair.other->device),
      move_where_named(evidence, *pair.other, *pair.it)};
}

}  // namespace devtrace::report::verdict::rules
