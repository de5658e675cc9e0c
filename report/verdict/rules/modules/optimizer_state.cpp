// An optimizer keeps tensors beside each parameter, made where the parameter was at its first step or where a
// checkpoint was loaded.
#include <algorithm>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

namespace {

constexpr std::string_view kOptimizerState = "optimizer-state";

// The optimizer, when the tensor was found in its state: `opt` for `opt.state[…]["exp_avg"]`.
std::string_view optimizer_of(const Operand& operand) {
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
  return repair_of(loaded, fmt::format("{}\nfor group in {}.param_groups:\n    group.update({{key: "
                                       "value.to(group[\"params\"][0].device) for key, value in group.items() if "
                                       "hasattr(value, \"device\")}})",
                                       source.substr(begin), optimizer));
}

// The file that it was read from, or what load_state_dict() copied.
const Frame* read_at(const Operand& it) {
  if (const Frame* line = line_of_load(it)) return line;
  if (!loaded_at(it)) return nullptr;
  for (const Operand& source : it.computed_from)
    if (const Frame* line = line_of_load(source)) return line;
  return nullptr;
}

std::optional<Cause> group_value(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return in_a_group(it) != nullptr; },
                                  [](const Operand& other) { return !in_a_group(other); });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const std::string_view name = in_a_group(it)->name;
  const Frame* loaded = loaded_at(it);
  Cause cause{kOptimizerState, loaded ? Confidence::high : Confidence::medium,
              loaded
                  ? fmt::format("{} is {}, which load_state_dict() took over at {} as the checkpoint had it: an "
                                "optimizer's state is brought to its parameter's device, the values of its groups are "
                                "not. It is on {} and meets {}.",
                                it.name, name, at(loaded), it.device, with_place(*pair.other))
                  : fmt::format("{} is {}, a value of the optimizer's group: nothing moves it with the parameters. It "
                                "meets {}.",
                                with_place(it), name, with_place(*pair.other)),
              std::nullopt};
  if (const Frame* file = read_at(it)) cause.fix = load_where(evidence, *file, *pair.other);
  if (loaded && (!cause.fix || names(*cause.fix, *pair.other)))
    if (auto cast = cast_the_groups(*loaded)) cause.fix = std::move(cast);
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
  // The innermost object: one further out holds all that a training has.
  for (const Chain& chain : it.held_by) {
    const Holder* innermost = nullptr;
    for (const Holder& holder : chain.holders)
      if (holder.kind == "object" && holder.holds == "attribute") innermost = &holder;
    if (innermost && holds_optimizer(*innermost)) return innermost;
  }
  return nullptr;
}

// What keeps copies of parameters is made behind the move of the model.
std::optional<Fix> move_first_or_here(const Evidence& evidence, const Event& made, const Event& moved) {
  auto first = move_before_making(made, moved);
  if (first && !first->code.empty()) return first;
  auto use = use_site(evidence);
  return use ? use : first;
}

std::optional<Cause> kept_around_an_optimizer(const Evidence& evidence) {
  if (evidence.caller_of_model()) return std::nullopt;
  for (const Operand& it : evidence.operands) {
    for (const Operand& parameter : evidence.operands) {
      if (it.device == parameter.device) continue;
      const Holder* object = around_an_optimizer(it, parameter);
      if (!object) continue;
      return Cause{kOptimizerState, Confidence::medium,
                   fmt::format("{} is kept by {} ({}) for a parameter of the optimizer that it holds, and that "
                               "parameter is {}: one of the two was moved without the other.",
                               with_place(it), object->name, object->type, with_place(parameter)),
                   move_first_or_here(evidence, it.created, parameter.moved)};
    }
  }
  return std::nullopt;
}

// How the optimizer holds it, in its state or in an attribute of its own; null where it is nobody's state.
const Chain* in_the_state(const Operand& operand) {
  for (const Chain& chain : operand.held_by)
    for (const Holder& holder : chain.holders) {
      if (holder.kind != "optimizer" || chain.name.size() <= holder.name.size()) continue;
      const std::string_view path = std::string_view(chain.name).substr(holder.name.size());
      if (path.starts_with(".") && !path.starts_with(".param_groups")) return &chain;
    }
  return nullptr;
}

// Is it in what load_state_dict() of the optimizer brings to the parameters? An attribute of its own is not.
bool follows_its_parameter(const Operand& state) {
  const Chain* const chain = in_the_state(state);
  return !chain || chain->name.find(".state[") != chain->name.npos;
}

// Itself, or the state that it was computed from.
const Operand* state_of(const Operand& operand) {
  if (!optimizer_of(operand).empty() || in_the_state(operand)) return &operand;
  for (const Operand& source : operand.computed_from)
    if (const Operand* state = state_of(source)) return state;
  return nullptr;
}

// The last move of the parameter that it is kept for, as far as that is known.
const Event* move_of_parameter(const Operand& state, const Operand& other) {
  if (state.kept_for.moved.known()) return &state.kept_for.moved;
  if (other.is_state()) return other.moved.known() ? &other.moved : nullptr;
  for (const Operand& source : other.computed_from)
    if (const Event* moved = move_of_parameter(state, source)) return moved;
  return nullptr;
}

// … by the running line that calls its step().
std::string name_of_stepping(const Evidence& evidence, const Frame& line) {
  const auto class_of = [](const Frame& frame) { return frame.function.substr(0, frame.function.rfind('.') + 1); };
  const auto own = innermost_project(evidence.stack);
  if (!own) return {};
  const Frame& here = evidence.stack[*own];
  const std::string statement = dedented(here.source);
  const std::string_view name = std::string_view(statement).substr(0, statement.find(".step("));
  if (name.size() == statement.size() || !is_reference(name)) return {};
  const bool attribute = name.starts_with("self.") && !class_of(here).empty() && class_of(here) == class_of(line) &&
                         !line.function.ends_with("__init__");
  return here.same_function(line) || attribute ? std::string(name) : std::string();
}

// What the optimizer is called in a line: as a frame that runs the same function has it. Or it is an attribute of the
// object whose method that is.
std::string name_in_line(const Evidence& evidence, const Operand& state, const Frame& line) {
  for (const finding::Name& name : state.names) {
    if (name.frame >= evidence.stack.size() || !evidence.stack[name.frame].same_function(line)) continue;
    const std::string_view owner = std::string_view(name.name).substr(0, name.name.find(".state["));
    if (owner.size() < name.name.size() && is_reference(owner)) return std::string(owner);
  }
  const Chain* chain = in_the_state(state);
  const Holder* before = nullptr;
  for (const Holder& holder : chain ? chain->holders : finding::List<Holder>()) {
    if (holder.kind == "optimizer") {
      const bool method = before && before->holds == "attribute" && line.function.starts_with(before->type + ".");
      const bool later = method && before->bound.file == line.file && before->bound.line > line.line;
      if (later && line.function.ends_with("__init__")) return {};
      if (method) return fmt::format("self{}", holder.name.substr(before->name.size()));
      const bool variable = !before && chain->frame < evidence.stack.size() &&
                            evidence.stack[chain->frame].same_function(line) && is_reference(holder.name);
      return variable ? holder.name : std::string();
    }
    before = &holder;
  }
  return {};
}

// `state["mask"] = torch.tensor(…)` below `state = self.state[p]`: made where p is.
std::optional<Fix> beside_the_parameter(const Frame& made) {
  if (!made.project || !makes_tensor(made.source) || says_device(made.source)) return std::nullopt;
  constexpr std::string_view kState = "self.state[";
  const std::string_view source = made.source, around = made.around.text;
  const std::string_view target = source.substr(std::min(source.find_first_not_of(" \t"), source.size()));
  const std::string_view variable = target.substr(0, target.find_first_of("[ ="));
  std::string_view key;
  for (const std::string_view text : {source, around}) {
    const size_t at = text.find(kState);
    if (at == text.npos || !key.empty()) continue;
    const bool here = text == source || text.find(fmt::format("{} = {}", variable, kState)) != text.npos;
    const size_t begin = at + kState.size(), end = text.find(']', begin);
    if (here && end != text.npos) key = text.substr(begin, end - begin);
  }
  if (!is_reference(key)) return std::nullopt;
  auto code = give_device(source, fmt::format("{}.device", key));
  if (!code) return std::nullopt;
  return repair_of(made, std::move(*code));
}

// May another statement come behind it, in the same function?
bool may_be_followed(std::string_view statement) {
  return statement.find('\n') == statement.npos && !statement.ends_with(':') && !statement.starts_with("return");
}

// A whole statement that gives something a value.
bool assigns(std::string_view statement) {
  const Scan scan(statement);
  return scan.balanced && scan.value_begins != 0;
}

// The state follows where the model is moved: load_state_dict() brings each to its parameter's device. Behind the call
// that moved it, where the function that does has not the optimizer.
std::optional<Fix> behind_the_move(const Evidence& evidence, const Operand& state, const Event& moved) {
  const Frame& innermost = *moved.line();
  if (!innermost.project) return std::nullopt;
  for (const Frame& line : moved.stack) {
    std::string optimizer = line.project ? name_in_line(evidence, state, line) : std::string();
    if (optimizer.empty() && line.project) optimizer = name_of_stepping(evidence, line);
    const std::string statement = dedented(line.source);
    const bool moves = &line != &innermost || only_moves(statement) || assigns(statement);
    if (!optimizer.empty() && moves && may_be_followed(statement))
      return repair_of(line, fmt::format("{}\n{}.load_state_dict({}.state_dict())", statement, optimizer, optimizer));
  }
  return repair_of(innermost, {});
}

// Did the one stack begin in a later line of a function that had begun both? Within a tick of the clock this alone
// tells.
bool later_line(const Stack& one, const Stack& other) {
  for (size_t outside = 1; outside <= std::min(one.size(), other.size()); ++outside) {
    const Frame &here = one[one.size() - outside], &there = other[other.size() - outside];
    if (!here.same_line(there)) return !here.same_function(there) || here.line > there.line;
  }
  return true;
}

// Was the parameter made when the state was there already, as one of a model that is constructed for a file's values?
bool made_after(const Operand& state, const Operand& other) {
  if (other.is_state()) {
    const auto &made = state.created.time, &then = other.created.time;
    return made && then && (*then > *made || (*then == *made && later_line(other.created.stack, state.created.stack)));
  }
  return std::any_of(other.computed_from.begin(), other.computed_from.end(),
                     [&](const Operand& source) { return made_after(state, source); });
}

// … if that was after the state was made.
const Event* moved_since(const Operand& state, const Operand& other) {
  const Event* moved = move_of_parameter(state, other);
  if (!moved || !moved->time || !state.created.time || *moved->time < *state.created.time || made_after(state, other))
    return nullptr;
  return *moved->time > *state.created.time || later_line(moved->stack, state.created.stack) ? moved : nullptr;
}

// Its own code, and no model that a closure runs which it was given.
bool in_an_optimizer(const Evidence& evidence) {
  for (const Frame& frame : evidence.stack) {
    if (finding::calls_modules(frame) || frame.source.find("closure()") != frame.source.npos) return false;
    if (frame.file.find("/torch/optim/") != frame.file.npos) return true;
  }
  return false;
}

constexpr std::string_view kMovedSince = "the parameter was moved after the optimizer's state was made or loaded";

// The line that left it where a file was read to; not where the parameter has moved on since: until then both lay
// there.
const Frame* left_where_read(const Operand& state, const Operand& other) {
  return moved_since(state, other) ? nullptr : read_at(state);
}

std::string how_it_came(const Operand& state, const Operand& other) {
  if (const Frame* load = left_where_read(state, other))
    return fmt::format("it lies where the file was read to at {}, and nothing brought it to its parameter", at(load));
  if (moved_since(state, other) || !move_of_parameter(state, other) || !state.created.line())
    return std::string(kMovedSince);
  return fmt::format("{} made the state elsewhere than its parameter is", at(state.created.line()));
}

// In front of `optimizer.step()`, for want of the line that left the state where it is.
std::optional<Fix> in_front_of_the_step(const Evidence& evidence, const Operand& state) {
  for (const Frame& line : evidence.stack) {
    if (!line.project) continue;
    const std::string optimizer = name_in_line(evidence, state, line), statement = dedented(line.source);
    if (optimizer.empty() || !statement.starts_with(optimizer + ".step(") || !may_be_followed(statement)) continue;
    return line_fix(line, fmt::format("{0}.load_state_dict({0}.state_dict())\n{1}", optimizer, statement));
  }
  return std::nullopt;
}

std::optional<Fix> fix_of_state(const Evidence& evidence, const Operand& state, const Operand& other) {
  if (const Frame* load = left_where_read(state, other)) return load_where(evidence, *load, other);
  const Event* moved = moved_since(state, other);
  if (!moved && state.created.line())
    if (auto fix = beside_the_parameter(*state.created.line())) return fix;
  if (!moved || !moved->line() || !follows_its_parameter(state)) return std::nullopt;
  auto fix = in_a_constructor(state.created.stack) ? move_before_making(state.created, *moved) : std::nullopt;
  if (fix && !fix->code.empty()) return fix;
  auto behind = behind_the_move(evidence, state, *moved);
  return behind && (!fix || !behind->code.empty()) ? behind : fix;
}

// The state lies where its parameter does: it is the gradient that somebody else has made elsewhere.
std::optional<Cause> gradient_of_its_own(const Evidence& evidence, const Operand* state, const Operand& gradient) {
  const bool beside = state && std::ranges::any_of(state->computed_from, [&](const Operand& from) {
                        return from.is_state() && from.is_parameter && from.device == state->device;
                      });
  if (!beside || gradient.is_state()) return std::nullopt;
  return Cause{kOptimizerState, Confidence::medium,
               fmt::format("{} lies where its parameter does, {}. It meets {}, which was not made there.",
                           with_place(*state), state->computed_from[0].name, with_place(gradient)),
               repairing(move_where_named(evidence, gradient, *state))};
}

}  // namespace

std::optional<Cause> optimizer_state(const Evidence& evidence) {
  if (auto cause = kept_around_an_optimizer(evidence)) return cause;
  if (!in_an_optimizer(evidence)) return std::nullopt;
  // What the line itself takes to the device that is current was not left elsewhere.
  const auto to_current = [](const Operand& it) { return says_current_device(it.expression); };
  if (std::any_of(evidence.operands.begin(), evidence.operands.end(), to_current)) return std::nullopt;
  if (auto cause = group_value(evidence)) return cause;
  const auto any = [](const Operand&) { return true; };
  auto pair = evidence.pair([](const Operand& it) { return !optimizer_of(it).empty(); }, any);
  const bool seen = static_cast<bool>(pair);
  if (!seen) pair = evidence.pair([](const Operand& it) { return state_of(it) != nullptr; }, any);
  if (!pair) pair = evidence.pair([](const Operand& it) { return !it.is_state(); }, any);
  if (!pair) return std::nullopt;

  const Operand* state = state_of(*pair.it);
  if (auto gradient = gradient_of_its_own(evidence, state, *pair.other)) return gradient;
  Cause cause{kOptimizerState, seen ? Confidence::high : Confidence::medium,
              fmt::format("The optimizer's {} meets {}: {}.", with_place(*pair.it), with_place(*pair.other),
                          state ? how_it_came(*state, *pair.other) : std::string(kMovedSince)),
              std::nullopt};
  if (state) cause.fix = fix_of_state(evidence, *state, *pair.other);
  // load_state_dict brings each state to its parameter's device. Which line moved the model is not in the evidence.
  if (state && (!cause.fix || cause.fix->code.empty()) && follows_its_parameter(*state))
    if (auto fix = in_front_of_the_step(evidence, *state)) cause.fix = std::move(fix);
  if (seen && (!cause.fix || cause.fix->code.empty())) {
    cause.fix = Fix{
        fmt::format("{0}.load_state_dict({0}.state_dict())  # once, after the model was moved", optimizer_of(*pair.it)),
        {},
        0,
        Repairs::cause};
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
