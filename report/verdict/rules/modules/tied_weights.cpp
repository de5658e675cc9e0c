// One tensor under two names of a model (an embedding and the output layer): it lies on one device only, and the second
// user may be on another. accelerate's dispatch and Module.to() of a part both move it away from one of its users.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

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

// Two ways from an object that is no module, `self.model.embed.weight` and `self.models[0].module.embed.weight`: to one
// module, as far as their ends tell.
bool is_one_module(const Evidence& evidence, const finding::Name& first, const finding::Name& second) {
  const auto& running = evidence.refusal.modules;
  if (std::any_of(running.begin(), running.end(), [&](const auto& each) { return each.frame == first.frame; }))
    return false;
  const auto owner = [](std::string_view name) {
    const size_t last = name.rfind('.');
    return name.substr(name.rfind('.', last - 1));
  };
  return owner(first.name) == owner(second.name);
}

// The two names that one frame has for it, where these are of two modules' state.
std::optional<std::pair<std::string_view, std::string_view>> both_names(const Evidence& evidence,
                                                                        const Operand& operand) {
  if (!operand.is_state()) return std::nullopt;
  for (const finding::Name& first : operand.names)
    for (const finding::Name& second : operand.names)
      if (first.frame == second.frame && first.name < second.name && !Ends(first.name).root.empty() &&
          Ends(first.name) == Ends(second.name) && !is_one_module(evidence, first, second))
        return std::pair<std::string_view, std::string_view>(first.name, second.name);
  return std::nullopt;
}

// `self.tail = nn.Sequential(*blocks).to(device)`: the second owner is built of the first one's parts, and its move
// takes them along. Copies are its own.
std::optional<Fix> built_of_the_same(const Operand& it, std::string_view first, std::string_view second) {
  const Frame* moved = it.moved.line();
  if (!moved || !moved->project || !moved->function.ends_with("__init__")) return std::nullopt;
  const std::string statement = dedented(moved->source);
  const auto assigns = [&](std::string_view name) {
    const std::string_view owner = name.substr(0, name.find('.', name.find('.') + 1));
    return statement.starts_with(fmt::format("{} = ", owner));
  };
  const size_t star = statement.find("(*");
  if ((!assigns(first) && !assigns(second)) || star == statement.npos ||
      statement.find("(*", star + 1) != statement.npos)
    return std::nullopt;
  const size_t begin = star + 2, end = statement.find_first_of(",)", begin);
  const std::string parts = statement.substr(begin, end - begin);
  if (!is_reference(parts)) return std::nullopt;
  return repair_of(*moved, fmt::format("import copy\n{}copy.deepcopy({}){}", statement.substr(0, begin), parts,
                                       statement.substr(end)));
}

}  // namespace

std::optional<Cause> tied_weights(const Evidence& evidence) {
  // What a model makes for itself on the CPU, no part of it has computed.
  const auto pair = evidence.pair([&](const Operand& it) { return both_names(evidence, it).has_value(); },
                                  [&](const Operand& other) {
                                    return !other.is_of_state() && evidence.made_inside_model(other) &&
                                           (!other.on_cpu() || made_by_a_layer(other));
                                  });
  if (!pair) return std::nullopt;
  const auto [first, second] = *both_names(evidence, *pair.it);
  auto apart = built_of_the_same(*pair.it, first, second);
  return Cause{
      "tied-weights", made_by_a_layer(*pair.other) ? Confidence::high : Confidence::medium,
      fmt::format("{} and {} are one tensor, which lies on {} only, and {} comes to it on {}: the parts of the "
                  "model that share it are on different devices.",
                  first, second, pair.it->device, pair.other->name, pair.other->device),
      apart ? apart : move_where_named(evidence, *pair.other, *pair.it)};
}

}  // namespace devtrace::report::verdict::rules
