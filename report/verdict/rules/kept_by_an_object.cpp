// An object that is no module has kept a tensor since before this call, and what is computed now lies elsewhere.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// `bound` of `Class.bound.<locals>.<listcomp>`; empty for a function that is none of the class's.
std::string_view method_of(std::string_view type, std::string_view function) {
  if (function.size() <= type.size() || !function.starts_with(type) || function[type.size()] != '.') return {};
  const std::string_view method = function.substr(type.size() + 1);
  return method.substr(0, method.find('.'));
}

// Of a chain the innermost object that is no module and has the operand as an attribute or in one: what holds that has
// not kept the operand. Null: none, or one that is no more than a collection of names.
const Holder* object_of(const Chain& chain) {
  const Holder* object = nullptr;
  for (const Holder& holder : chain.holders)
    if (holder.kind == "object" && holder.holds == "attribute") object = &holder;
  return object && object->type != "SimpleNamespace" && object->type != "Namespace" ? object : nullptr;
}

// Does the call of a model that runs now hold it all, the object and the tensor? An object that a line of it made hangs
// on that line's variable, and on no module or global.
bool is_of_this_call(const Evidence& evidence, const Operand& it, const Chain& chain) {
  const auto caller = evidence.caller_of_model();
  return caller && chain.frame < *caller && chain.holders[0].kind == "object" && chain.holders[0].name != "self" &&
         evidence.made_inside_model(it);
}

// The first that is `wanted`, and that has outlived a call.
template <typename Predicate>
const Holder* object_with(const Evidence& evidence, const Operand& it, const Predicate& wanted) {
  for (const Chain& chain : it.held_by)
    if (const Holder* const object = object_of(chain);
        object && !is_of_this_call(evidence, it, chain) && wanted(*object))
      return object;
  return nullptr;
}

// The object whose own code made it, or moved it, before this call. One that moves what it has is asked to
// move, as a module is.
const Holder* keeper(const Evidence& evidence, const Operand& it) {
  if (it.is_of_state() || !evidence.made_before_call(it)) return nullptr;
  return object_with(evidence, it, [&](const Holder& holder) {
    const auto own = [&](const Frame& frame) {
      const std::string_view method = method_of(holder.type, frame.function);
      return !method.empty() && method != "to" && method != "cuda" && method != "cpu";
    };
    const Stack& placed = it.placed()->stack;
    return std::any_of(placed.begin(), placed.end(), own);
  });
}

// Whoever made it: an object that is no module has had it since before this call.
const Holder* owner(const Evidence& evidence, const Operand& it) {
  // Of memory that nobody was seen to make, as NumPy's, an attribute is taken to be older than the call. One without
  // elements has none: on the CPU it may be a beginning, on a GPU somebody has put it there.
  const bool empty = it.on_cpu() && std::find(it.shape.begin(), it.shape.end(), 0) != it.shape.end();
  const bool unseen = it.role == "attribute" && !it.placed() && !empty;
  if (it.is_of_state() || (!unseen && !evidence.made_before_call(it))) return nullptr;
  // What is under construction has been given it in this call.
  return object_with(evidence, it, [&](const Holder& holder) {
    return std::none_of(evidence.stack.begin(), evidence.stack.end(),
                        [&](const Frame& frame) { return method_of(holder.type, frame.function) == "__init__"; });
  });
}

// A constructor of the class, or what constructs one by another name: `Normalize.from_stats(mean)`.
bool by_a_maker(std::string_view type, const Stack& placed) {
  if (in_a_constructor(placed)) return true;
  const auto made = [&](const Frame& frame) {
    const bool own = method_of(type, frame.function).starts_with("from_");
    return own && frame.project;
  };
  return std::any_of(placed.begin(), placed.end(), made);
}

// The object of a library whose method runs and which has the operand.
const Holder* running_object(const Evidence& evidence, const Operand& it) {
  return object_with(evidence, it, [&](const Holder& holder) {
    return std::any_of(evidence.stack.begin(), evidence.stack.end(), [&](const Frame& frame) {
      const std::string_view method = method_of(holder.type, frame.function);
      return !frame.project && !method.empty() && method != "__init__";
    });
  });
}

// A library's object has had it since before the other one was moved, which it works on now: an average of parameters.
std::optional<Cause> kept_since_before_a_move(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    const Frame* const made = it.created.line();
    const Holder* const object = running_object(evidence, it);
    if (it.is_of_state() || !it.on_cpu() || it.moved.known() || !made || !object) continue;
    for (const Operand& other : evidence.operands) {
      if (!other.is_state() || !other.moved.time || !it.created.time || *other.moved.time < *it.created.time) continue;
      Cause cause{"cached-state-elsewhere", Confidence::medium,
                  fmt::format("{} is kept by {}, which has made it before {} was moved, and is no module that moves "
                              "with it.",
                              with_place(it), object->type, with_place(other)),
                  use_site(evidence)};
      if (!cause.fix && made->project) cause.fix = repair_of(*made, {});
      return cause;
    }
  }
  return std::nullopt;
}

// `def hook(grad): return grad * mask`: a function has kept what was made for it when an object was constructed.
std::optional<Cause> kept_by_a_function(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own || evidence.stack[*own].function.find("<locals>") == std::string::npos || in_a_constructor(evidence.stack))
    return std::nullopt;
  const auto kept = [&](const Operand& it) {
    return it.on_cpu() && !it.moved.known() && !it.is_of_state() && it.role == "variable" && it.computed_from.empty() &&
           is_identifier(it.name_in(*own)) && in_a_constructor(it.created.stack) && evidence.made_before_call(it);
  };
  const auto pair = evidence.pair(kept, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{
      "cached-state-elsewhere", Confidence::low,
      fmt::format("{} was made when an object was constructed, and {} has kept it: no .to() reaches that. What "
                  "meets it now is {}.",
                  with_place(*pair.it), evidence.stack[*own].function, with_place(*pair.other)),
      use_site(evidence)};
}

}  // namespace

bool is_owned_by_an_object(const Evidence& evidence, const Operand& it) {
  return owner(evidence, it) != nullptr;
}

std::optional<Cause> computed_by_an_object(const Evidence& evidence) {
  const auto pair =
      evidence.pair([](const Operand& it) { return it.given_by.kind == "owner" && !it.given_by.keeps.empty(); },
                    [](const Operand& other) { return other.given_by.keeps.empty() && !other.is_of_state(); });
  if (!pair) return std::nullopt;
  const auto& producer = pair.it->given_by;
  return Cause{
      "cached-state-elsewhere", Confidence::low,
      fmt::format("{} gave {} on {}, where the object that it belongs to keeps {}; what meets it is {}.", producer.name,
                  pair.it->name, pair.it->device, producer.keeps[0].name, with_place(*pair.other)),
      use_site(evidence)};
}

std::optional<Cause> taken_to_be_kept(const Evidence& evidence) {
  for (const Operand& it : evidence.operands)
    for (const finding::KeptTensor& kept : it.given_by.keeps) {
      const Frame* const line = kept.moved.line();
      const auto other = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                      [&](const Operand& each) { return each.device == kept.moved.from; });
      // From the CPU it was brought to where the work is.
      if (it.given_by.kind != "owner" || !it.held_by.empty() || it.device == kept.moved.from ||
          kept.moved.from == "cpu" || other == evidence.operands.end() || !line || !line->project)
        continue;
      return Cause{
          "cached-state-elsewhere", Confidence::medium,
          fmt::format("{} gives {} on {}. Its object keeps {} there since {} took that from {}, where what "
                      "meets it is: {}.",
                      it.given_by.name, it.name, it.device, kept.name, at(line), kept.moved.from, with_place(*other)),
          use_site(evidence)};
    }
  return std::nullopt;
}

std::optional<Cause> beside_what_is_kept(const Evidence& evidence) {
  const auto now = [](const Operand& it) {
    return it.on_cpu() && !it.moved.known() && !it.is_of_state() && it.created.line();
  };
  const auto pair = evidence.pair(now, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const auto is_own = [&](const finding::FrameExpression& each, const Operand& it) {
    return it.name_in(each.frame) == each.expression;
  };
  const finding::FrameExpression* kept = nullptr;
  for (const finding::FrameExpression& each : evidence.refusal.tensors) {
    const auto& sources = pair.it->computed_from;
    const bool own = is_own(each, *pair.it) ||
                     std::ranges::any_of(sources, [&](const Operand& source) { return is_own(each, source); });
    if (each.device != pair.it->device || own || each.expression.ends_with("()")) continue;
    if (!each.expression.starts_with("self.")) return std::nullopt;
    if (!kept) kept = &each;
  }
  if (!kept || kept->frame >= evidence.stack.size()) return std::nullopt;
  return Cause{"cached-state-elsewhere", Confidence::low,
               fmt::format("{} was computed on the CPU, where {} has kept {} and nothing else lies that these lines "
                           "name. It meets {}.",
                           with_place(*pair.it), evidence.stack[kept->frame].function, kept->expression,
                           with_place(*pair.other)),
               use_site(evidence)};
}

std::optional<Cause> owned_by_an_object(const Evidence& evidence) {
  const auto pair =
      evidence.pair([&](const Operand& it) { return owner(evidence, it); },
                    [&](const Operand& other) { return !owner(evidence, other) && !other.is_of_state(); });
  if (!pair) return std::nullopt;
  return Cause{"cached-state-elsewhere", Confidence::low,
               fmt::format("{} is an attribute of {}, which is no module, from before this call; what meets it is {}.",
                           with_place(*pair.it), owner(evidence, *pair.it)->type, with_place(*pair.other)),
               use_site(evidence)};
}

std::optional<Cause> kept_by_an_object(const Evidence& evidence) {
  if (auto cause = kept_since_before_a_move(evidence)) return cause;
  if (auto cause = kept_by_a_function(evidence)) return cause;
  const auto pair = evidence.pair([&](const Operand& it) { return keeper(evidence, it); },
                                  [&](const Operand& other) { return !keeper(evidence, other); });
  if (!pair) return std::nullopt;
  // What the object keeps its constructor has put on a GPU, and what its method was given never left the CPU.
  const Operand &it = *pair.it, &other = *pair.other;
  if (!it.on_cpu() && other.on_cpu() && !other.moved.known() && !other.is_of_state() && !made_by_a_module(other) &&
      by_a_maker(keeper(evidence, it)->type, it.placed()->stack) && evidence.made_before_call(other))
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} was given to {}, which has put {} on {}: {}.", with_place(other),
                             keeper(evidence, it)->type, it.name, it.device, at(it.placed()->line())),
                 use_site(evidence)};
  if (!it.on_cpu() && evidence.own_device() == it.device && other.placed() && !other.is_of_state())
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} was given to a layer on {}, where {} lies with it.", with_place(other), it.device,
                             with_place(it)),
                 use_site(evidence)};
  return Cause{
      "cached-state-elsewhere", Confidence::low,
      fmt::format("{} is kept from before this call by {}, which is no module, so that no .to() reaches it; what "
                  "meets it now is {}.",
                  with_place(*pair.it), keeper(evidence, *pair.it)->type, with_place(*pair.other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
