// Keys and values of earlier steps, kept on the device of the layer (or of the server) that filled them.
#include <algorithm>

#include "common/cache_names.h"
#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kCachedState = "cached-state-elsewhere";

bool is_cache(const Operand& operand) {
  return names_a_cache(operand.name) || std::any_of(operand.names.begin(), operand.names.end(),
                                                    [](const finding::Name& each) { return names_a_cache(each.name); });
}

bool older(const Operand& it, const Operand& other) {
  return it.created.time && other.created.time && *it.created.time < *other.created.time;
}

// Something holds it from one call to the next: a container, an object, a module's attribute.
bool is_held(const Operand& operand) {
  return operand.role == "element" || operand.role == "attribute" ||
         std::any_of(operand.names.begin(), operand.names.end(), [](const finding::Name& each) {
           return is_reference(each.name) && each.name.find_first_of("[.") != each.name.npos;
         });
}

std::string skipped(const Evidence& evidence) {
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    for (const std::string_view key : module.skip_keys)
      if (names_a_cache(key))
        return fmt::format(" accelerate's hooks are told to leave {} where it is (skip_keys).", key);
  }
  return {};
}

// A function, or an object, was asked, and answered with what it keeps from an earlier call.
std::optional<Cause> answered_from_memory(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) {
        // What a module's attribute holds was given by nobody now.
        return !it.given_by.keeps.empty() && it.given_by.kind != "owner" && it.role != "attribute";
      },
      [](const Operand& other) { return other.given_by.keeps.empty() && !other.is_of_state(); });
  if (!pair) return std::nullopt;
  const auto& producer = pair.it->given_by;
  const auto& kept = producer.keeps[0];
  const Event& placed = kept.moved.known() ? kept.moved : kept.created;
  const std::string where = at(placed.line());
  const size_t inner = kept.name.rfind('>');
  const std::string_view name = std::string_view(kept.name).substr(inner == kept.name.npos ? 0 : inner + 2);
  // An object that was told its device has it there since it was constructed: what is given to it has to come there.
  const bool told = in_a_constructor(placed.stack) && placed.line() && says_device(placed.line()->source);
  const auto given = [](const Operand& it) { return it.role == "argument"; };
  const auto& sources = pair.other->computed_from;
  if (told && (given(*pair.other) || std::any_of(sources.begin(), sources.end(), given)))
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} keeps {} on {} since it was constructed for that device ({}), and was given {}.",
                             producer.name, name, pair.it->device, where, with_place(*pair.other)),
                 use_site(evidence)};
  return Cause{
      kCachedState, told ? Confidence::low : Confidence::medium,
      fmt::format("{} keeps tensors on {} ({}{}{}), and its answer lies there, too: what was made for one device "
                  "is given for another, where {} is.",
                  producer.name, pair.it->device, name, where.empty() ? "" : ", made at ", where, pair.other->name),
      move_where_named(evidence, *pair.it, *pair.other)};
}

// A call like `a.t()` gives what an operand with a name is.
bool is_view_of_another(const Evidence& evidence, const Operand& it) {
  return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
    return other.expression.empty() && other.created.known() && other.device == it.device &&
           other.created.time == it.created.time && other.created.stack.size() == it.created.stack.size() &&
           other.created.stack.front().same_line(it.created.stack.front());
  });
}

// `charge.unsqueeze(-1)` is of what the function has in a variable.
bool is_of_a_variable(const Evidence& evidence, size_t own, const Operand& it) {
  const auto variable = begins_with(it.expression);
  return variable && is_identifier(*variable) && *variable != "self" &&
         std::any_of(evidence.refusal.expressions.begin(), evidence.refusal.expressions.end(), [&](const auto& each) {
           return each.frame == own && each.device == it.device && each.expression == *variable + ".device";
         });
}

// Is it what a call in the failing line gave, and was it there before that line ran?
bool given_from_before(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  if (!own || !it.expression.ends_with(')') || it.is_of_state() || !it.computed_from.empty() ||
      it.created.stack.empty() || it.moved.known() || is_view_of_another(evidence, it) ||
      is_of_a_variable(evidence, *own, it))
    return false;
  // The line of another run of a loop is the same line: then it counts whether it is older than what that line did not
  // make.
  if (!evidence.made_under(it, *own)) return true;
  const size_t depth = evidence.stack.size() - *own;
  const Frame& then = it.created.stack[it.created.stack.size() - depth];
  const Event* placed = other.expression.empty() && !evidence.made_by_line(other, *own) ? other.placed() : nullptr;
  return !then.same_line(evidence.stack[*own]) ||
         (placed && placed->time && it.created.time && *it.created.time < *placed->time);
}

// Where all registered state is where the other one lies, the model was moved since: what its line makes can be
// registered. Not where the attribute had a value before, of the constructor's or the class's: no buffer can be called
// so.
std::optional<Fix> registered(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Frame* const made = it.created.line();
  const bool moved = evidence.has_state_on(other.device) && !evidence.has_state_on(it.device);
  const bool anew = std::any_of(it.held_by.begin(), it.held_by.end(), [](const Chain& chain) {
    return !chain.holders.empty() && chain.holders.back().is_module() && chain.holders.back().bound.line == 0;
  });
  const auto target = made ? assigned_name(made->source) : std::nullopt;
  // Who asks whether it is None wants to find that there: what stands around has to show that nobody does.
  const bool asked = target && (made->around.text.empty() ||
                                made->around.text.find(fmt::format("{} is None", *target)) != std::string::npos);
  if (moved && anew && target && !asked && made->project)
    if (auto fix = register_buffer(*made, it)) return fix;
  return move_where_named(evidence, it, other);
}

// A module made it when it was called before, and has it as an attribute: `if self.grid is None: self.grid = …`.
std::optional<Cause> kept_by_its_module(const Evidence& evidence) {
  const auto kept = [&](const Operand& it) {
    return (it.role == "attribute" || it.hidden()) && !it.is_of_state() && !it.moved.known() &&
           it.moved_away.device.empty() && made_by_a_module(it) && evidence.caller_of_model() &&
           !evidence.made_inside_model(it) && !in_a_constructor(it.created.stack);
  };
  const auto pair = evidence.pair(kept, [&](const Operand& other) { return !kept(other); });
  if (!pair) return std::nullopt;
  return Cause{
      kCachedState, Confidence::medium,
      fmt::format("{} is kept from an earlier call, in which the module made it, as a plain attribute: neither "
                  "moving the model nor another input brings it along. It meets {}.",
                  with_place(*pair.it), with_place(*pair.other)),
      registered(evidence, *pair.it, *pair.other)};
}

// Its module made it in a call before this one, for a device that the line names. For example `self.keys =
// torch.zeros(…, device=d)` in a method that sets up what is used later.
std::optional<Cause> set_up_elsewhere(const Evidence& evidence) {
  const auto set_up = [&](const Operand& it) {
    return placed_by_choice(it) && it.hidden() && it.moved_away.device.empty() && !it.is_of_state() &&
           evidence.made_before_call(it) && !evidence.made_inside_model(it);
  };
  const auto pair = evidence.pair(set_up, [&](const Operand& other) { return !set_up(other); });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const std::string_view function = it.created.line()->function;
  return Cause{kCachedState, Confidence::medium,
               fmt::format("{} is a plain attribute of {}, made before this call, by {}, for the device that it was "
                           "given there. It meets {}.",
                           with_place(it), it.hidden().owner().type, function, with_place(*pair.other)),
               move_where_named(evidence, it, *pair.other)};
}

// Of a variable that a call has given: the call's line, where the function called had made it in an earlier call. It is
// older than what its caller has computed in a line further up.
const Frame* given_by_an_earlier_call(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  if (!own || !other.created.line() || !older(it, other) || it.is_of_state() || it.moved.known() ||
      !it.computed_from.empty())
    return nullptr;
  const Frame &here = evidence.stack[*own], &computed = *other.created.line();
  // What the running function was given has been put there for this call.
  const Event* const placed = other.placed();
  const auto target = it.created.line() ? assigned_name(it.created.line()->source) : std::nullopt;
  const bool given_now = target && !is_identifier(*target) && other.role == "argument" &&
                         !other.name_in(*own).empty() && placed->time && it.created.time &&
                         *placed->time > *it.created.time;
  for (const finding::Step& step : it.lineage) {
    const auto called = (step.what == "assigned" || step.what == "returned") && step.line.same_function(here)
                            ? called_in_value(step.line.source)
                            : std::string();
    const bool made_by_it =
        !called.empty() && std::any_of(it.created.stack.begin(), it.created.stack.end(), [&](const Frame& each) {
          return each.function == called || each.function.ends_with("." + called);
        });
    const bool computed_above =
        computed.same_function(here) && computed.line < step.line.line && evidence.made_under(other, *own);
    if (made_by_it && (computed_above || given_now)) return &step.line;
  }
  return nullptr;
}

std::optional<Cause> given_from_an_earlier_call(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      const Frame* const line = it.device == other.device ? nullptr : given_by_an_earlier_call(evidence, it, other);
      if (!line) continue;
      return Cause{kCachedState, Confidence::medium,
                   fmt::format("{} was made before {} came to where it is: what {} calls has kept it from an earlier "
                               "call, for another device.",
                               with_place(it), with_place(other), at(line)),
                   move_where_named(evidence, it, other)};
    }
  }
  return std::nullopt;
}

// `grid = grids[key]`, of a container that a line filled with what went to the device that was current: another one
// is now, and that is where the work is.
std::optional<Cause> read_from_a_container(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    const Frame* const placed = it.placed() ? it.placed()->line() : nullptr;
    const auto target = placed ? assigned_name(placed->source) : std::nullopt;
    const std::string container(target ? container_of(*target) : std::string_view());
    if (container.empty() || it.on_cpu() || it.is_of_state()) continue;
    const auto reads_it = [&](const finding::Step& step) {
      const std::string_view value = value_in(step.line.source);
      return step.what == "assigned" && value.starts_with(container + "[");
    };
    const auto read = std::find_if(it.lineage.begin(), it.lineage.end(), reads_it);
    const auto other = std::find_if(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& each) {
      return each.device != it.device && each.device == evidence.finding.current_device;
    });
    if (read == it.lineage.end() || other == evidence.operands.end()) continue;
    const std::string_view device = expression_of(*read, other->device);
    auto code = device.empty() ? std::nullopt : move_value(read->line.source, device);
    auto fix = code ? std::optional(repair_of(read->line, std::move(*code)))
                    : repairing(move_where_named(evidence, it, *other));
    return Cause{kCachedState, Confidence::medium,
                 fmt::format("{} is what {} was filled with while {} was current ({}); now it is {}, where {} is.",
                             it.name, container, it.device, at(placed), other->device, with_place(*other)),
                 std::move(fix)};
  }
  return std::nullopt;
}

// Says no more than the stacks and the times do.
std::string sentence(const Operand& kept, const Operand& fresh, bool before) {
  if (before)
    return fmt::format("{} was kept from before this call and meets {}, which is on another device.", with_place(kept),
                       with_place(fresh));
  if (older(kept, fresh))
    return fmt::format("{} is older than {}, which is on another device.", with_place(kept), with_place(fresh));
  return fmt::format("{}, by its name a state that is kept, meets {}, which is on another device.", with_place(kept),
                     with_place(fresh));
}

}  // namespace

std::optional<Cause> answered_from_before(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      if (it.device == other.device || !given_from_before(evidence, it, other)) continue;
      return Cause{kCachedState, Confidence::low,
                   fmt::format("{} gives a tensor on {} that was there before this line ran ({}): what was kept for "
                               "one device is given for another. It meets {}.",
                               it.expression, it.device, at(it.created.line()), with_place(other)),
                   use_site(evidence)};
    }
  }
  return std::nullopt;
}

std::optional<Cause> cached_state_elsewhere(const Evidence& evidence) {
  const auto not_state = [](const Operand& operand) { return !operand.is_state(); };
  // What a line of the program's has left where it was, and not what lies beside it, is data, whoever keeps it.
  auto pair =
      evidence.pair([](const Operand& it) { return is_cache(it) && !it.is_state() && !left_by(it); }, not_state);
  if (!pair) {
    for (const auto& rule : {kept_by_its_module, set_up_elsewhere, answered_from_memory, given_from_an_earlier_call,
                             read_from_a_container})
      if (auto cause = rule(evidence)) return cause;
    return std::nullopt;
  }

  // With a cache on both sides the older one is what was kept. What stays on the CPU is moved to the GPU, never the
  // other way.
  const bool both = is_cache(*pair.other);
  if (both && (older(*pair.other, *pair.it) || (pair.other->on_cpu() && !pair.it->on_cpu())))
    std::swap(pair.it, pair.other);
  const Operand& kept = *pair.it;
  const Operand& fresh = *pair.other;
  if (evidence.taken_to_current_device(kept, fresh)) return std::nullopt;  // it was not made for that device
  // Nor is it what was kept that is elsewhere, where a line says "cuda" of what meets it, or where it lies with the
  // layer that computes with it.
  if (current_by_name(fresh)) return std::nullopt;
  const bool in_its_place = evidence.own_device() == kept.device;
  if (in_its_place && !both && !fresh.on_cpu() && fresh.placed()) return std::nullopt;

  // A name alone is a hint. That it was there before the call says that it is a state. That it is the older one of two
  // caches, that caches of several steps or layers meet; of a plain variable it says little.
  const bool before = evidence.made_before_call(kept);
  const bool seen = older(kept, fresh) || (kept.on_cpu() && !fresh.on_cpu());
  // Of two that objects were constructed with neither is what is computed now.
  if (before && !both && in_a_constructor(kept.created.stack) && in_a_constructor(fresh.created.stack))
    return std::nullopt;
  const bool stays = fresh.on_cpu() || evidence.is_index_of(fresh, kept) || in_its_place;
  // Proven is only what is held from before the call, and older; and it is what has to move.
  const bool sure = seen && before && is_held(kept) && !stays;
  Cause cause{kCachedState, sure ? Confidence::high : Confidence::medium,
              sentence(kept, fresh, before) + skipped(evidence), std::nullopt};
  cause.fix = stays ? move_where_named(evidence, fresh, kept) : move_where_named(evidence, kept, fresh);
  return cause;
}

}  // namespace devtrace::report::verdict::rules
