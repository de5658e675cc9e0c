// An optimizer keeps tensors beside each parameter, made where the parameter was at its first step or where a
// checkpoint was loaded.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict::rules {

namespace {

constexpr std::string_view kCategory = "optimizer-state";

// The optimizer, when the tensor was found in its state: `opt` for `opt.state[…]["exp_avg"]`.
std::string_view owner_of(const Operand& operand) {
  const std::string_view name = operand.name;
  const size_t state = name.find(".state[");
  return state != name.npos && is_reference(name.substr(0, state)) ? name.substr(0, state) : std::string_view();
}

// … or when it is a value of a parameter group, beside the parameters: the chain by which the optimizer holds it.
const Chain* in_a_group(const Operand& operand) {
  for (const Chain& chain : operand.held_by) {
    const auto optimizer = std::find_if(chain.holders.begin(), chain.holders.end(),
                                        [](const Holder& each) { return each.kind == "optimizer"; });
    if (optimizer == chain.holders.end()) continue;
    const std::string_view rest =
        std::string_view(chain.name).substr(std::min(optimizer->name.size(), chain.name.size()));
    if (rest.starts_with(".param_groups[") && rest.find("][\"params\"]") == rest.npos) return &chain;
  }
  return nullptr;
}

// The line of the user's that loaded it: load_state_dict() casts an optimizer's state, and no values of its groups.
const Frame* loaded_at(const Operand& operand) {
  const Stack& made = operand.created.stack;
  const bool loaded = std::any_of(made.begin(), made.end(), [](const Frame& frame) {
    return frame.file.find("/torch/optim/") != frame.file.npos && frame.function.ends_with("load_state_dict");
  });
  return loaded && operand.created.line()->project ? operand.created.line() : nullptr;
}

std::optional<Fix> cast_the_groups(const Frame& loaded) {
  constexpr std::string_view kCall = ".load_state_dict(";
  const std::string_view source = loaded.source;
  const size_t call = source.find(kCall), begin = source.find_first_not_of(" \t");
  if (call == source.npos || source.find(kCall, call + 1) != source.npos || source.back() != ')') return std::nullopt;
  const std::string_view optimizer = source.substr(begin, call - begin);
  if (!is_reference(optimizer)) return std::nullopt;
  return Fix{fmt::format("{}\nfor group in {}.param_groups:\n    group.update({{key: "
                         "value.to(group[\"params\"][0].device) for key, value in group.items() if "
                         "hasattr(value, \"device\")}})",
                         source.substr(begin), optimizer),
             std::string(loaded.file), loaded.line, Repairs::cause};
}

std::optional<Cause> group_value(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return in_a_group(it) != nullptr; },
                                  [](const Operand& other) { return !in_a_group(other); });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const std::string_view name = in_a_group(it)->name;
  const Frame* loaded = loaded_at(it);
  Cause cause{kCategory, loaded ? Confidence::high : Confidence::medium,
              loaded
                  ? fmt::format("{} is {}, which load_state_dict() took over at {} as the checkpoint had it: an "
                                "optimizer's state is brought to its parameter's device, the values of its groups are "
                                "not. It is on {} and meets {}.",
                                it.name, name, at(loaded), it.device, with_place(*pair.other))
                  : fmt::format("{} is {}, a value of the optimizer's group: nothing moves it with the parameters. It "
                                "meets {}.",
                                with_place(it), name, with_place(*pair.other)),
              std::nullopt};
  if (loaded) cause.fix = cast_the_groups(*loaded);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// The object that holds an optimizer, and so the parameter, and beside that a tensor like the parameter: slow weights,
// master weights.
const Holder* around_an_optimizer(const Operand& it, const Operand& parameter) {
  if (it.is_of_state() || !parameter.is_state() || it.shape.empty() || it.shape != parameter.shape) return nullptr;
  const auto holds_optimizer = [&](const Holder& object) {
    return std::any_of(parameter.held_by.begin(), parameter.held_by.end(), [&](const Chain& chain) {
      const auto from = std::find_if(chain.holders.begin(), chain.holders.end(),
                                     [&](const Holder& each) { return each.name == object.name; });
      return std::any_of(from, chain.holders.end(), [](const Holder& each) { return each.kind == "optimizer"; });
    });
  };
  for (const Chain& chain : it.held_by)
    for (const Holder& holder : chain.holders)
      if (holder.kind == "object" && holder.holds == "attribute" && holds_optimizer(holder)) return &holder;
  return nullptr;
}

std::optional<Cause> kept_around_an_optimizer(const Evidence& evidence) {
  if (evidence.caller_of_model()) return std::nullopt;
  for (const Operand& it : evidence.operands) {
    for (const Operand& parameter : evidence.operands) {
      if (it.device == parameter.device) continue;
      const Holder* object = around_an_optimizer(it, parameter);
      if (!object) continue;
      return Cause{kCategory, Confidence::medium,
                   fmt::format("{} is kept by {} ({}) for a parameter of the optimizer that it holds, and that "
                               "parameter is {}: one of the two was moved without the other.",
                               with_place(it), object->name, object->type, with_place(parameter)),
                   use_site(evidence)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> optimizer_state(const Evidence& evidence) {
  if (auto cause = kept_around_an_optimizer(evidence)) return cause;
  if (!evidence.passes_through("/torch/optim/")) return std::nullopt;
  if (auto cause = group_value(evidence)) return cause;
  const auto any = [](const Operand&) { return true; };
  auto pair = evidence.pair([](const Operand& it) { return !owner_of(it).empty(); }, any);
  const bool seen = static_cast<bool>(pair);
  if (!seen) pair = evidence.pair([](const Operand& it) { return !it.is_state(); }, any);
  if (!pair) return std::nullopt;

  Cause cause{
      kCategory, seen ? Confidence::high : Confidence::medium,
      fmt::format(
          "The optimizer's {} meets {}: the parameter was moved after the optimizer's state was made or loaded.",
          with_place(*pair.it), with_place(*pair.other)),
      std::nullopt};
  // load_state_dict brings each state to its parameter's device. Which line moved the model is not in the evidence.
  if (seen) {
    cause.fix =
        Fix{fmt::format("{0}.load_state_dict({0}.state_dict())  # once, after the model was moved", owner_of(*pair.it)),
            {},
            0,
            Repairs::cause};
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
