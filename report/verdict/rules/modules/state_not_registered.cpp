// A tensor that a module has, and has not registered: model.to(), state_dict() and accelerate know of parameters,
// buffers and registered modules only. It is a plain attribute, or in a plain list, a dict, a distribution, a closure.
#include <algorithm>

#include "common/cache_names.h"
#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kStateNotRegistered = "state-not-registered";

// Made when a module or what it holds was constructed, and not by anybody's forward.
bool made_in_construction(const Operand& operand) {
  return !made_by_a_module(operand) && in_a_constructor(operand.created.stack);
}

// … by a line of a constructor, or of another method of that class which the constructor calls: what is registered
// there is registered before anybody moves the module. Null: it was not, or has been moved since.
const Frame* line_in_constructor(const Operand& operand) {
  const Frame* made = operand.created.line();
  if (!made || !made->project || operand.moved.known()) return nullptr;
  const std::string_view type = owner_of(*made);
  const bool called_there = !type.empty() && constructs(operand.created.stack, type);
  return made->function.ends_with("__init__") || called_there ? made : nullptr;
}

// Made by what the module that holds it is doing right now: no state that a move could have left behind.
bool made_just_now(const Evidence& evidence, const Operand& operand, const Operand::Hidden& hidden) {
  return std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                     [&](const finding::RunningModule& module) {
                       return module.type == hidden.owner().type && evidence.made_under(operand, module.frame);
                     });
}

// Made by nobody's forward, before this call, and never moved.
bool a_constant(const Evidence& evidence, const Operand& operand) {
  return operand.role != "attribute" && !operand.moved.known() && !made_by_a_module(operand) &&
         evidence.made_before_call(operand);
}

// Kept by a line of the module's constructor, which was given it, and the module was moved since. Of memory that nobody
// was seen to make, as NumPy's, too.
bool given_to_its_constructor(const Evidence& evidence, const Operand& it, const Operand::Hidden& hidden) {
  const Holder& owner = hidden.owner();
  return hidden.module + 1 == hidden.chain->holders.size() && owner.bound.line > 0 &&
         value_in(owner.bound.source) != "None" && it.on_cpu() && !it.moved.known() && owner.devices.size() == 1 &&
         owner.devices[0] != it.device && (!it.created.known() || evidence.made_before_call(it));
}

// What stands between the module and the tensor: "a list (self.criterions)".
std::string hidden_in(const Operand::Hidden& hidden) {
  const auto& holders = hidden.chain->holders;
  if (hidden.module + 1 >= holders.size()) return fmt::format("a plain attribute of {}", hidden.owner().type);
  const Holder& inner = holders[hidden.module + 1];
  const std::string what = inner.kind == "object"     ? fmt::format("{}, which is no module", inner.type)
                           : inner.kind == "method"   ? std::string("a bound method")
                           : inner.kind == "function" ? std::string("a function")
                                                      : fmt::format("a plain {}", inner.kind);
  return fmt::format("in {} of {}: {}", inner.name.substr(std::min(inner.name.rfind('.') + 1, inner.name.size())),
                     hidden.owner().type, what);
}

// The tensors of a distribution and the like: made where the other one is.
std::optional<Fix> make_there(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Frame* made = it.created.line();
  if (!made || !made->project || it.moved.known()) return std::nullopt;
  auto code = give_device_to_all(made->source, expression_or_number(evidence, *made, other.device));
  if (!code) return std::nullopt;
  return line_fix(*made, std::move(*code));
}

// `self.t = nn.Parameter(…).cuda()`: what a move of a parameter gives is none. Without the move it is registered.
std::optional<Fix> keep_the_parameter(const Operand& it) {
  const Frame* made = it.created.line();
  if (!made || !made->project || !made->function.ends_with("__init__")) return std::nullopt;
  auto code = without_move_of(made->source, "Parameter");
  if (!code) return std::nullopt;
  return repair_of(*made, std::move(*code));
}

// No line of its class stores the attribute by its name: a registry of the module's own does, which its .to() may know
// of. Where the module is no part of another, it is what was never moved.
std::optional<Fix> move_the_owner(const Evidence& evidence, const Operand::Hidden& hidden, const Operand& other) {
  const Holder& owner = hidden.owner();
  const auto caller = evidence.caller_of_model();
  if (hidden.module != 0 || !owner.devices.empty() || owner.bound.line > 0 || !caller) return std::nullopt;
  return evidence.stack[*caller].project ? repairing(move_called(evidence, *caller, other, owner.name)) : std::nullopt;
}

// A constructor that is told its device puts its tensors there itself, and nobody moves the module afterwards.
std::optional<Fix> make_where_told(const Frame& made, const Operand& it, const Operand& other) {
  for (const finding::Step& step : it.lineage) {
    const std::string_view device = expression_of(step, other.device);
    if (step.what != "made" || !step.line.same_line(made) || !is_identifier(device)) continue;
    if (auto code = give_device(made.source, device)) return repair_of(made, std::move(*code));
  }
  return std::nullopt;
}

// A line of the module's constructor keeps what it was given, `self.edges = edges`, and the module was moved since.
std::optional<Fix> register_where_kept(const Operand& it, const Operand& other) {
  const auto hidden = it.hidden();
  if (!hidden || hidden.module + 1 != hidden.chain->holders.size() || it.moved.known()) return std::nullopt;
  const Holder& owner = hidden.owner();
  const bool moved = owner.devices.size() == 1 && owner.devices[0] == other.device;
  return moved && owner.bound.line > 0 ? register_buffer(owner.bound, it) : std::nullopt;
}

// Somebody else's line has made it, `layer.limit = torch.tensor(3.0)`, and has words for where the module is.
std::optional<Fix> make_where_given(const Evidence& evidence, const Operand& it, const Operand::Hidden& hidden,
                                    const Operand& other) {
  const Frame* const made = it.created.line();
  const bool own = !made || owner_of(*made) == hidden.owner().type;
  return own || !makes_tensor(made->source) ? std::nullopt : fix_at_origin_of(evidence, it, other.device);
}

std::optional<Fix> fix_of_hidden(const Evidence& evidence, const Operand::Hidden& hidden, const Operand& it,
                                 const Operand& other) {
  const Frame* const made = line_in_constructor(it);
  const bool direct = hidden.module + 1 == hidden.chain->holders.size();
  if (direct && made) {
    if (auto fix = make_where_told(*made, it, other)) return fix;
    if (auto fix = register_buffer(*made, it)) return fix;
  }
  if (direct)
    if (auto fix = keep_the_parameter(it)) return fix;
  if (auto fix = register_where_kept(it, other)) return fix;
  if (direct && !in_a_constructor(it.created.stack))
    if (auto fix = make_where_given(evidence, it, hidden, other)) return fix;
  if (direct)
    if (auto fix = move_the_owner(evidence, hidden, other)) return fix;
  if (direct)
    if (auto fix = move_owner_where_constructed(evidence, it, other)) return fix;
  if (auto fix = register_of_object(hidden, it)) return fix;
  if (auto fix = register_modules(*hidden.chain, hidden.module, it)) return fix;
  if (it.is_state())
    if (auto fix = move_part_where_called(evidence)) return fix;
  if (auto fix = move_where_named(evidence, it, other)) return fix;
  return make_there(evidence, it, other);
}

// The module that holds it lies as a whole where it is: nothing left it behind.
bool beside_its_owner(const Evidence& evidence, const Operand& it, const Operand::Hidden& hidden) {
  const auto& devices = hidden.owner().devices;
  if (devices.size() == 1 && devices[0] == it.device) return true;
  return std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(), [&](const auto& module) {
    return module.type == hidden.owner().type && module.devices.size() == 1 && module.devices[0] == it.device;
  });
}

// Is what the module has not registered a module, whose code may have renewed its tensors since? These lie where that
// was left, whoever made them.
bool of_a_module_left(const Operand& it, const Operand::Hidden& hidden) {
  const auto& holders = hidden.chain->holders;
  return it.on_cpu() && it.role == "attribute" && !it.moved.known() && hidden.module + 2 < holders.size() &&
         hidden.owner().devices.size() == 1 && hidden.owner().devices[0] != it.device &&
         std::any_of(holders.begin() + hidden.module + 1, holders.end(),
                     [](const Holder& each) { return each.is_module(); });
}

// Does the module keep the same of other calls where the other operand lies? It collects them, and no move of it has
// left one of them behind.
bool is_collected(const Evidence& evidence, const Operand& it, const Operand::Hidden& hidden) {
  const auto at_run_time = [](const Operand& each) {
    return !each.is_state() && !each.moved.known() && !in_a_constructor(each.created.stack);
  };
  return at_run_time(it) && std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
           const auto beside = other.device != it.device && at_run_time(other) ? other.hidden() : Operand::Hidden();
           return beside && beside.owner().name == hidden.owner().name &&
                  beside.chain->holders.size() == hidden.chain->holders.size();
         });
}

// Somebody holds it, as can be seen, and nothing that .to() of that module reaches.
std::optional<Cause> hidden_state(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        const auto hidden = it.hidden();
        if (hidden && of_a_module_left(it, hidden)) return true;
        return hidden && !given_the_current_device(it) && it.moved_away.device.empty() && !placed_by_choice(it) &&
               !(it.on_cpu() && it.moved.known()) && !evidence.made_inside_model(it) &&
               !made_just_now(evidence, it, hidden) && !beside_its_owner(evidence, it, hidden) &&
               !spread_owner(evidence, it) && !constructs(evidence.stack, hidden.owner().type) &&
               !is_collected(evidence, it, hidden) &&
               (it.is_state() || made_in_construction(it) || a_constant(evidence, it) ||
                given_to_its_constructor(evidence, it, hidden));
      },
      [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const auto hidden = it.hidden();
  // The module itself is where the other operand is: it was moved, and this was not.
  const auto& devices = hidden.owner().devices;
  const bool left = devices.size() == 1 && devices[0] == pair.other->device && !it.moved.known();
  auto fix = fix_of_hidden(evidence, hidden, it, *pair.other);
  if (devices.empty() && hidden.module + 1 == hidden.chain->holders.size() && !it.moved.known())
    return Cause{kStateNotRegistered, Confidence::medium,
                 fmt::format("{} is what {} keeps, which has nothing registered and was never moved; it meets {}.",
                             with_place(it), hidden.owner().type, with_place(*pair.other)),
                 std::move(fix)};
  return Cause{kStateNotRegistered, left ? Confidence::high : Confidence::medium,
               fmt::format("{} is {}. That is neither a parameter nor a buffer nor a registered module, so moving {} "
                           "left it behind; it meets {}.",
                           with_place(it), hidden_in(hidden), hidden.owner().type, with_place(*pair.other)),
               std::move(fix)};
}

// A plain attribute; or it came as an argument from a module further out, which holds it as `self.freqs_cis` since it
// was constructed.
bool is_attribute(const Evidence& evidence, const Operand& operand) {
  if (operand.role == "attribute") return true;
  const Frame* made = operand.created.line();
  const auto caller = evidence.caller_of_model();
  if (!caller || !made || !made->function.ends_with("__init__") || operand.is_of_state()) return false;
  return std::any_of(operand.names.begin(), operand.names.end(), [&](const finding::Name& each) {
    return each.frame < *caller && each.name.starts_with("self.") && is_identifier(each.name.substr(5));
  });
}

// Is the object that has the attribute known, and no module?
bool of_no_module(const Operand& operand) {
  return !operand.held_by.empty() && std::none_of(operand.held_by.begin(), operand.held_by.end(),
                                                  [](const Chain& chain) { return chain.holders.back().is_module(); });
}

// The tensor that the module keeps which gave this one: the same memory.
const finding::KeptTensor* kept_by_its_giver(const Operand& it) {
  if (it.given_by.kind != "module") return nullptr;
  const auto same = [&](const finding::KeptTensor& kept) {
    return kept.device == it.device && kept.created.time && kept.created.time == it.created.time &&
           !kept.created.stack.empty() && !it.created.stack.empty() &&
           kept.created.stack.front().same_line(it.created.stack.front());
  };
  const auto& keeps = it.given_by.keeps;
  const auto found = std::find_if(keeps.begin(), keeps.end(), same);
  return found == keeps.end() ? nullptr : &*found;
}

bool runs_a_method(const Stack& stack, std::string_view type) {
  return std::any_of(stack.begin(), stack.end(),
                     [&](const Frame& frame) { return frame.function.starts_with(fmt::format("{}.", type)); });
}

// The module that gave it keeps a tensor there: `Normal(self.mean(x), self.log_std.exp())`. Null: none does.
const finding::KeptTensor* kept_where_it_lies(const Operand& it) {
  const auto& producer = it.given_by;
  const bool left = producer.kind == "module" && producer.devices.empty() && !producer.keeps.empty();
  if (!left || !it.on_cpu() || it.moved.known()) return nullptr;
  const finding::KeptTensor& kept = producer.keeps[0];
  return kept.device == it.device && !kept.moved.known() && in_a_constructor(kept.created.stack) ? &kept : nullptr;
}

std::optional<Cause> computed_from_what_its_producer_keeps(const Evidence& evidence) {
  const auto source = [](const Operand& it) -> const Operand* {
    if (kept_where_it_lies(it)) return &it;
    const auto& from = it.computed_from;
    return from.size() == 1 && kept_where_it_lies(from[0]) ? &from[0] : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return source(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Operand& given = *source(*pair.it);
  const finding::KeptTensor& kept = *kept_where_it_lies(given);
  Operand it;
  it.name = given.given_by.name + kept.name;
  const Frame* const made = kept.created.line();
  Cause cause{kStateNotRegistered, Confidence::medium,
              fmt::format("{} was given by {}, which keeps {} ({}, created there at {}): neither a parameter nor a "
                          "buffer, so moving it left that behind. It meets {}.",
                          given.name, given.given_by.name, it.name, kept.device, at(made), with_place(*pair.other)),
              std::nullopt};
  // It is the module's own, and not of an object that the module keeps.
  if (made && made->project && kept.name.rfind('.') == 0) cause.fix = register_buffer(*made, it);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// No name leads from the module to it, as where a view of it is given, or a copy of an object with other parts.
std::optional<Cause> made_with_its_module(const Evidence& evidence) {
  const auto made = [&](const Operand& it) {
    const auto hidden = it.hidden();
    return !module_that_made(evidence, it).empty() && !(hidden && is_collected(evidence, it, hidden));
  };
  const auto pair = evidence.pair(made, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const std::string_view type = module_that_made(evidence, *pair.it);
  return Cause{kStateNotRegistered, Confidence::medium,
               fmt::format("{} was made by {} for itself, and is neither a parameter nor a buffer: moving the model "
                           "left it behind. It meets {}.",
                           with_place(*pair.it), type, with_place(*pair.other)),
               move_where_named(evidence, *pair.it, *pair.other)};
}

// Does that module have it, or has its method computed it in this call?
bool belongs_to(const Evidence& evidence, const Operand& it, const finding::RunningModule& inner) {
  if (it.is_state())
    return it.root_class == inner.type && it.root_devices.size() == 1 && !(it.on_cpu() && it.moved.known());
  const auto is_view = [](const Operand& source) { return !source.view_of.empty(); };
  // The failing line's own intermediate result has no origin.
  const bool now = it.created.stack.empty() || evidence.made_under(it, inner.frame);
  return it.on_cpu() && !it.moved.known() && now &&
         std::any_of(it.computed_from.begin(), it.computed_from.end(), is_view);
}

// A module that another one calls and has not among its own: it belongs to a file, or to an object that is none.
std::optional<Cause> module_of_nobody(const Evidence& evidence) {
  const auto& running = evidence.refusal.modules;
  for (const finding::RunningModule& inner : running) {
    if (inner.devices.size() != 1) continue;
    const auto pair = evidence.pair(
        [&](const Operand& it) { return it.device == inner.devices[0] && belongs_to(evidence, it, inner); },
        [](const Operand& other) { return !other.is_state() && !other.on_cpu(); });
    const auto outer = std::find_if(running.begin(), running.end(), [&](const finding::RunningModule& each) {
      return pair && each.frame > inner.frame && each.type != inner.type && each.devices.size() == 1 &&
             each.devices[0] == pair.other->device;
    });
    if (!pair || outer == running.end() || outer->frame >= evidence.stack.size()) continue;
    const Frame& line = evidence.stack[outer->frame];
    Cause cause{kStateNotRegistered, Confidence::medium,
                fmt::format("{} calls {}, which it has not registered, so that no .to() of the model reaches it: {}{} "
                            "meets {}.",
                            outer->type, inner.type, pair.it->is_state() ? "its " : "", with_place(*pair.it),
                            with_place(*pair.other)),
                repair_of(line, {})};
    const std::string device = device_expression(evidence, outer->frame, *pair.other);
    const auto callee = callee_of(line.source, device.substr(0, device.find_last_of('.')));
    if (auto code =
            callee ? replace_read(line.source, *callee, fmt::format("{}.to({})", *callee, device)) : std::nullopt)
      cause.fix = line_fix(line, std::move(*code));
    else if (auto constructed = move_call_of(line.source, inner.type, device))
      cause.fix = repair_of(line, std::move(*constructed));
    return cause;
  }
  return std::nullopt;
}

}  // namespace

std::string_view module_that_made(const Evidence& evidence, const Operand& it) {
  if (it.is_of_state() || !it.on_cpu() || it.moved.known() || names_a_cache(it.name) || made_by_a_module(it)) return {};
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    const bool constructed = constructs(it.created.stack, module.type) && !constructs(evidence.stack, module.type);
    if (constructed || (kept_by_its_giver(it) && runs_a_method(it.created.stack, module.type))) return module.type;
  }
  return {};
}

std::optional<Cause> state_not_registered(const Evidence& evidence) {
  if (auto cause = hidden_state(evidence)) return cause;
  if (auto cause = module_of_nobody(evidence)) return cause;
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return is_attribute(evidence, it) && !of_no_module(it) && !it.is_state() && !names_a_cache(it.name) &&
               !placed_by_choice(it) && it.moved_away.device.empty() && !evidence.made_inside_model(it) &&
               !spread_owner(evidence, it);
      },
      [](const Operand&) { return true; });
  if (!pair) {
    auto cause = computed_from_what_its_producer_keeps(evidence);
    return cause ? cause : made_with_its_module(evidence);
  }
  const Operand& it = *pair.it;
  const bool of_module = !it.module_class.empty() || !it.root_class.empty() || evidence.caller_of_model().has_value();
  if (!of_module) return std::nullopt;

  Cause cause{
      kStateNotRegistered, Confidence::medium,
      fmt::format("{} is a plain attribute of {}, neither a parameter nor a buffer, so moving the model left it "
                  "behind; it meets {}.",
                  with_place(it), it.module_class.empty() ? "a module" : it.module_class, with_place(*pair.other)),
      std::nullopt};
  if (const Frame* const made = line_in_constructor(it)) cause.fix = register_buffer(*made, it);
  if (!cause.fix) cause.fix = register_where_kept(it, *pair.other);
  if (!cause.fix) cause.fix = move_where_named(evidence, it, *pair.other);
  return cause;
}

}  // namespace devtrace::report::verdict::rules
