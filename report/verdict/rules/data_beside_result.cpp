// What a module computed, beside data that came from none: labels, rewards, masks, indices that the program was given.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

// The failing function has made it of nothing, for a device that its own line says by a name: nobody gave it anything.
static std::optional<Cause> made_beside(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto frame = evidence.frame_that_made(it);
  const Frame* const line = it.created.line();
  if (!frame || frame != innermost_project(evidence.stack) || it.moved.known() || !line ||
      !line->same_function(evidence.stack[*frame]) || !makes_tensor(line->source) ||
      line->source.find("cpu") != line->source.npos)
    return std::nullopt;
  Cause cause{keyword_argument(line->source, "device") ? "input-not-moved" : "created-without-device",
              Confidence::medium,
              fmt::format("{} was made by {} for another device than that of {}, which it meets.", with_place(it),
                          at(line), with_place(other)),
              std::nullopt};
  // Another one that the failing line calculates with lies there, too, and would be refused next.
  const auto next = [&](const finding::Mention& each) {
    return each.frame == *frame && each.device == it.device && is_term(evidence.stack[*frame].source, each.name);
  };
  const auto& mentions = evidence.refusal.mentions;
  const bool alone = std::none_of(mentions.begin(), mentions.end(), next);
  if (alone) {
    // What brings it there while the failing call runs says nothing of where it has been.
    const bool there =
        there_before(other, evidence.stack[*frame], *line) && !evidence.happened_inside_model(other.moved);
    std::string device = there ? device_expression(evidence, *frame, other) : std::string();
    for (const finding::Step& step : it.lineage)
      if (device.empty() && step.what == "made" && step.line.same_line(*line))
        device = expression_of(step, other.device);
    auto code = redirect_move(line->source, device);
    if (!code) code = say_device(line->source, device);
    if (!code) code = give_device(line->source, device);
    if (code && !device.empty() && !device.starts_with('"')) cause.fix = repair_of(*line, std::move(*code));
  }
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// A function that has ended made it of nothing, and had words for where it is wanted.
static std::optional<Cause> made_in_sight(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Operand& from = it.origin();
  const Frame* const line = from.created.line();
  const auto running = [&](const Frame& frame) {
    return frame.function != "<module>" && std::any_of(evidence.stack.begin(), evidence.stack.end(),
                                                       [&](const Frame& each) { return each.same_function(frame); });
  };
  if (!from.on_cpu() || from.moved.known() || is_loaded_data(from) || is_given_data(evidence, from) || !line ||
      !line->project || line->function == "<module>" || !makes_tensor(line->source) || says_device(line->source))
    return std::nullopt;
  for (const finding::Step& step : from.lineage) {
    // Its own line, or that of the function which has called it and still runs.
    const bool known = step.what == "made" || (step.what == "returned" && running(step.line));
    const std::string_view device = known ? expression_of(step, other.device) : std::string_view();
    if (device.empty()) continue;
    return Cause{"created-without-device", Confidence::medium,
                 fmt::format("{} was made on cpu because {} says no device, where {} is {}. It meets {}.", from.name,
                             at(line), device, other.device, with_place(other)),
                 use_site(evidence)};
  }
  return std::nullopt;
}

// The module whose code fails has parts on both devices: one has given the one, and the other did not come along.
static std::optional<Cause> beside_a_split_module(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    const auto has = [&](const Operand& each) {
      return std::find(module.devices.begin(), module.devices.end(), each.device) != module.devices.end();
    };
    if (module.frame != own || !has(it) || !has(other) || it.on_cpu() || other.on_cpu()) continue;
    return Cause{"module-split-or-hook-missing", Confidence::low,
                 fmt::format("{} has parts on {} and on {}: {} was computed on the one, and {} did not come along.",
                             module.type, other.device, it.device, with_place(other), with_place(it)),
                 use_site(evidence)};
  }
  return std::nullopt;
}

// What an object that is no module keeps was all that it was computed from: by_sources() asks about that.
static bool is_of_kept(const Evidence& evidence, const Operand& it) {
  const Operand* from = &it;
  while (from->computed_from.size() == 1 && from->computed_from[0].device == it.device) {
    from = &from->computed_from[0];
    if (from->role == "attribute" && is_owned_by_an_object(evidence, *from)) return true;
  }
  return false;
}

// Two passes of one line: each worked where its own part of a model was.
static std::optional<Cause> passes_of_one_line(const Evidence& evidence) {
  const auto line_of = [](const Operand& it) {
    const Frame* const made = it.created.line();
    return !it.moved.known() && !it.on_cpu() && !it.is_of_state() && made && made->project ? made : nullptr;
  };
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands) {
      const Frame *const one = line_of(it), *const two = line_of(other);
      const bool parts = evidence.has_state_on(it.device) && evidence.has_state_on(other.device);
      if (it.device == other.device || !parts || !one || !two || !one->same_line(*two)) continue;
      return Cause{"module-split-or-hook-missing", Confidence::low,
                   fmt::format("{} made both {} and {}, which lie where it was computed each time.", at(one),
                               with_place(it), with_place(other)),
                   use_site(evidence)};
    }
  return std::nullopt;
}

std::optional<Cause> data_beside_result(const Evidence& evidence) {
  if (auto cause = passes_of_one_line(evidence)) return cause;
  const auto computed = [](const Operand& it) { return it.came_from_a_module() || it.came_from_state(); };
  const auto beside = [&](const Operand& it) { return !computed(it) && it.placed() && !is_of_kept(evidence, it); };
  if (const auto pair = evidence.pair(beside, computed)) {
    if (auto cause = beside_a_split_module(evidence, *pair.it, *pair.other)) return cause;
    if (auto cause = made_beside(evidence, *pair.it, *pair.other)) return cause;
    if (auto cause = made_in_sight(evidence, *pair.it, *pair.other)) return cause;
    return Cause{
        "input-not-moved", Confidence::low,
        fmt::format("{} was computed with a model on {}, and {} comes from no model and was not brought there.",
                    pair.other->name, pair.other->device, with_place(*pair.it)),
        use_site(evidence)};
  }
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return it.on_cpu() && it.created.known() && !it.moved.known() && !is_of_kept(evidence, it);
      },
      [](const Operand& other) { return other.moved.known() && other.moved.line() && other.moved.line()->project; });
  if (!pair) return std::nullopt;
  if (auto cause = made_in_sight(evidence, *pair.it, *pair.other)) return cause;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was moved to {}, and {} never was.", with_place(*pair.other), pair.other->device,
                           with_place(*pair.it)),
               use_site(evidence)};
}

// Of memory that nobody was seen to make, as NumPy's: a function was given it on the CPU.
static std::optional<Cause> given_to_a_function(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const auto given = [&](const Operand& it) {
    return own && it.on_cpu() && !it.placed() && !it.is_of_state() && it.role == "argument" &&
           !it.name_in(*own).empty();
  };
  const auto pair = evidence.pair(given, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was given to {} on the CPU, and nobody was seen to move it. It meets {}.", pair.it->name,
                           evidence.stack[*own].function, with_place(*pair.other)),
               use_site(evidence)};
}

// … or on another GPU than the one for which the function has made what it meets.
static std::optional<Cause> given_from_another_gpu(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const auto argument = [&](const Operand& it) { return it.role == "argument" && !it.name_in(*own).empty(); };
  const auto given = [&](const Operand& it) {
    const auto& from = it.computed_from;
    return own && !it.on_cpu() && !it.is_of_state() && (argument(it) || (from.size() == 1 && argument(from[0])));
  };
  const auto made_here = [&](const Operand& it) {
    const bool now = !it.expression.empty() && it.created.stack.empty();
    return own && !it.on_cpu() && !it.is_of_state() && (now || evidence.made_under(it, *own)) && !given(it);
  };
  const auto pair = evidence.pair(given, made_here);
  if (!pair) return std::nullopt;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was given to {}, which has made {} for {}.", with_place(*pair.it),
                           evidence.stack[*own].function, pair.other->name, pair.other->device),
               use_site(evidence)};
}

// … a line has given it its name.
static std::optional<Cause> of_unseen_memory(const Evidence& evidence) {
  const auto named = [](const Operand& it) -> const finding::Step* {
    const auto step = std::find_if(it.lineage.begin(), it.lineage.end(),
                                   [](const finding::Step& each) { return each.what == "assigned"; });
    const bool unseen = it.on_cpu() && !it.placed() && !it.is_of_state() && it.computed_from.empty();
    return unseen && step != it.lineage.end() ? &*step : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return named(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu() && other.placed(); });
  if (!pair) return std::nullopt;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} lies on the CPU since {}, in memory that PyTorch did not allocate, as NumPy's, and was "
                           "never moved. It meets {}.",
                           pair.it->name, at(&named(*pair.it)->line), with_place(*pair.other)),
               use_site(evidence)};
}

std::optional<Cause> never_moved(const Evidence& evidence) {
  const auto left = [&](const Operand& it) {
    const Frame* made = it.created.line();
    return !is_of_kept(evidence, it) && !it.is_of_state() && it.on_cpu() && !it.moved.known() && made &&
           !says_device(made->source);
  };
  const auto pair = evidence.pair(left, [](const Operand& other) {
    return !other.on_cpu() && ((other.placed() && other.placed()->line()) || !other.lineage.empty());
  });
  if (!pair) {
    auto cause = given_to_a_function(evidence);
    if (!cause) cause = given_from_another_gpu(evidence);
    return cause ? cause : of_unseen_memory(evidence);
  }
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was made on the CPU and never moved, and meets {}.", with_place(*pair.it),
                           with_place(*pair.other)),
               use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
