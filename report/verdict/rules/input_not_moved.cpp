// What the caller gives to a model, or to a loss beside the model's answer, on another device than the parameters it
// meets.
#include <algorithm>

#include "common/cache_names.h"
#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/rules/modules/left_on_cpu.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kInputNotMoved = "input-not-moved";

// Was it brought to a GPU by a line that names it without a number? Then it was not left behind: it went to the device
// that was current.
bool went_without_a_number(const Operand& it) {
  const Event* placed = it.placed();
  return !it.on_cpu() && placed && placed->line() && says_current_device(placed->line()->source);
}

// Nobody but its producer, who was seen, can have left it there. It is given to a model that lies on one device as a
// whole. Nothing registered that can be seen lies where it is, and it was put there by nobody, or by the function that
// gives it.
bool surely_left(const Evidence& evidence, const Operand& input, const Operand& state, size_t caller) {
  if (!state.is_of_whole_model() || evidence.refusal.state_devices.empty() || evidence.has_state_on(input.device))
    return false;
  if (made_by_a_module(input) || !input.placed()) return false;
  if (!input.moved.known()) return input.on_cpu();
  const Frame* moved = input.moved.line();
  const Frame& here = evidence.stack[caller];
  const bool same = moved && moved->file == here.file && moved->function.starts_with(here.function);
  return same && (!input.moved.thread || input.moved.thread == evidence.thread);
}

// Made in the call itself: the caller was running then.
bool made_by_caller(const Evidence& evidence, const Operand& input, size_t caller) {
  const Stack& made = input.created.stack;
  const size_t depth = evidence.stack.size() - caller;
  return made.size() >= depth && made[made.size() - depth].same_function(evidence.stack[caller]);
}

// By a line of a module's method, of nothing.
bool made_by_the_model(const Evidence& evidence, const Operand& it) {
  const Frame* made = it.created.line();
  return made && it.on_cpu() && !it.moved.known() && (makes_tensor(made->source) || constructs_tensor(made->source)) &&
         evidence.made_by_a_modules_method(it);
}

// Brought to a GPU by its name, and given to a model that a line made on another one without saying any: that was the
// default device then.
std::optional<Cause> made_on_a_default(const Evidence& evidence, const Operand& input, const Operand& state,
                                       std::optional<size_t> caller) {
  const Frame* const made = state.created.line();
  if (input.on_cpu() || !input.moved.known() || went_without_a_number(input) || state.moved.known() || !made ||
      !made->project || says_device(made->source) || keyword_argument(made->source, "device") ||
      !state.is_of_whole_model())
    return std::nullopt;
  Cause cause{
      "default-or-current-device", Confidence::medium,
      fmt::format("{} was brought to {} and is given to {}, whose {} was made on {} by {}, which says no device: "
                  "that was the default one then.",
                  input.name, input.device, state.root_class.empty() ? "a model" : state.root_class, state.name,
                  state.device, at(made)),
      std::nullopt};
  if (caller && evidence.stack[*caller].project) cause.fix = move_at_call(evidence, *caller, input, state);
  if (!cause.fix) cause.fix = move_where_named(evidence, input, state);
  return cause;
}

// What it was computed from, where a line took that away from the other one's device, and named none. Null: nothing.
const Operand* taken_away_before(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto taken = [&](const Operand& source) {
    return source.device == it.device && evidence.taken_to_current_device(source, other);
  };
  const auto source = std::ranges::find_if(it.computed_from, taken);
  return source == it.computed_from.end() ? nullptr : &*source;
}

// `self(batch)`, in a method of the model's that goes on with the batch: the line that gave it to that method. Moved
// for one call, it would be met again.
std::optional<Fix> move_where_the_method_was_given(const Evidence& evidence, size_t method, const Operand& input,
                                                   const Operand& state) {
  if (module_in(method, state) != "self" || !input.read_again_in(method)) return std::nullopt;
  for (size_t frame = method + 1; frame < evidence.stack.size(); ++frame) {
    if (!evidence.stack[frame].project) continue;
    const bool given = !input.name_in(frame).empty() && !module_in(frame, state).empty();
    return given ? move_at_call(evidence, frame, input, state) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Cause> model_input(const Evidence& evidence) {
  // Of an intermediate result that is asked for which it was computed from: the line itself gave nobody anything.
  const auto input = [&](const Operand& it) {
    const Operand& from = it.origin();
    const bool nobodys = !it.expression.empty() && from.hidden();
    return !it.is_state() && from.role != "attribute" && !nobodys && !evidence.made_inside_model(from) &&
           !made_by_the_model(evidence, from) && !maker_of(evidence, from) && module_that_made(evidence, from).empty();
  };
  const auto pair = evidence.pair(input, [](const Operand& other) { return other.is_state() && !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const auto caller = evidence.caller_of_model();
  // No model is given anything; nor where one is constructed of another one's parts.
  if (!caller && (evidence.refusal.modules.empty() || in_a_constructor(evidence.stack))) return std::nullopt;
  if (evidence.by_another_threads_default(*pair.other, *pair.it) ||
      evidence.by_another_threads_default(*pair.it, *pair.other))
    return std::nullopt;
  // It was brought to where another model of the same object lies.
  if (pair.it->moved.known() && parts_of_no_module(evidence)) return std::nullopt;
  // A part of the model went to the device that is current because a call did not say where.
  const auto& passed = pair.other->lineage;
  const bool defaulted = std::any_of(passed.begin(), passed.end(), [](const finding::Step& each) {
    return each.what == "defaulted" && each.otherwise == "None";
  });
  if (defaulted && pair.other->root_devices.size() > 1) return std::nullopt;
  // Named by the caller, it was given. Without a name there, it may be an earlier call's answer that the model kept.
  const bool given = caller && !pair.it->name_in(*caller).empty();
  if (!given && made_by_a_module(*pair.it)) return std::nullopt;
  // It was brought to where another part of the model lies, and the one that it meets went to the device that was
  // current: what stayed behind is that part.
  const Event* part = pair.other->placed();
  const auto& devices = pair.other->root_devices;
  const bool brought =
      std::find(devices.begin(), devices.end(), pair.it->device) != devices.end() && pair.it->moved.known();
  if (brought && part && part->line() && says_current_device(part->line()->source)) return std::nullopt;
  // The model has left the device that the program still keeps as its own.
  if (by_a_stale_device(*pair.it, *pair.other) ||
      (pair.it->device_from.role == "attribute" && pair.other->moved.from == pair.it->device))
    return std::nullopt;
  if (auto cause = made_on_a_default(evidence, *pair.it, *pair.other, caller)) return cause;
  const bool sure = caller && (given || made_by_caller(evidence, *pair.it, *caller)) &&
                    surely_left(evidence, *pair.it, *pair.other, *caller);

  // Not left behind: it was brought to a GPU, and which one was not said.
  const Operand* const away = taken_away_before(evidence, *pair.it, *pair.other);
  const bool unnumbered = went_without_a_number(*pair.it) || away;
  Cause cause{unnumbered ? "default-or-current-device" : kInputNotMoved,
              sure && !unnumbered ? Confidence::high : Confidence::medium,
              fmt::format("{} is given to {}, whose {} is on {}.{}", with_place(*pair.it),
                          pair.other->root_class.empty() ? "a model" : std::string(pair.other->root_class),
                          pair.other->name, pair.other->device,
                          unnumbered ? fmt::format(" {} says no number: that is the device that was current.",
                                                   at(away ? away->moved.line() : pair.it->placed()->line()))
                                     : std::string()),
              std::nullopt};
  const auto placed = unnumbered ? say_device_where_placed(evidence, *pair.it, *pair.other) : std::nullopt;
  if (placed && !names(*placed, *pair.other)) cause.fix = placed;
  // Where it was made without a device no later use of its name is left behind.
  if (!cause.fix) cause.fix = fix_at_origin(evidence);
  if (!cause.fix && caller) cause.fix = move_where_the_method_was_given(evidence, *caller, *pair.it, *pair.other);
  // The caller may be a library; the user's frame outside of it, or the user's own module inside, can still be changed.
  if (!cause.fix && caller && evidence.stack[*caller].project)
    cause.fix = move_at_call(evidence, *caller, *pair.it, *pair.other);
  // Elsewhere than at the call of the model it is only where they meet.
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = placed;
  if (cause.fix && caller && cause.fix->line == evidence.stack[*caller].line) cause.fix->repairs = Repairs::cause;
  return cause;
}

// Something that the caller has left on the CPU meets what the model, whose state all lies on one device, has computed.
std::optional<Cause> given_to_a_model(const Evidence& evidence) {
  const auto caller = evidence.caller_of_model(), own = innermost_project(evidence.stack);
  if (!caller || !own || *own >= *caller || !evidence.stack[*caller].project) return std::nullopt;
  // `lengths[:, None]` is of what the call gives; what a container holds has its own reasons.
  const auto of = [&](const Operand& it) -> const Operand& {
    const Operand& named = named_in(it, *caller);
    return is_identifier(named.name_in(*caller)) ? named : it.origin();
  };
  const auto given = [&](const Operand& it) {
    const Operand& from = of(it);
    return from.on_cpu() && !from.moved.known() && !from.is_of_state() && !from.name_in(*caller).empty() &&
           from.role != "attribute" && !from.hidden() && !evidence.made_inside_model(from) &&
           !maker_of(evidence, from) && !names_a_cache(from.name);
  };
  // An intermediate result of the failing line has no origin of its own.
  const auto inside = [&](const Operand& it) {
    return evidence.made_inside_model(it) || (!it.expression.empty() && it.created.stack.empty());
  };
  const auto pair = evidence.pair(given, [&](const Operand& other) {
    return !other.is_of_state() && inside(other) && evidence.own_device() == other.device;
  });
  if (!pair) return std::nullopt;
  const Operand& it = of(*pair.it);
  Cause cause{kInputNotMoved, Confidence::medium,
              fmt::format("{} is given to a model whose state is on {}, and meets {} there.", with_place(it),
                          pair.other->device, with_place(*pair.other)),
              fix_at_origin(evidence)};
  // What comes along in `**kwargs` was put there by somebody else, with things that are no tensors.
  const std::string packed = fmt::format("**{}", container_of(it.name_in(*caller)));
  if (!cause.fix && (packed == "**" || evidence.stack[*caller].source.find(packed) == std::string::npos))
    cause.fix = move_at_call(evidence, *caller, it, *pair.other);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// The model was where the input is until a line that has ended took it to the CPU: who comes now finds it gone.
std::optional<Cause> taken_away(const Evidence& evidence, const Operand& input, const Operand& state) {
  const Event& moved = state.moved;
  if (moved.from != input.device || !moved.line() || !moved.line()->project) return std::nullopt;
  const auto live = frame_that_went_on(evidence, moved.stack);
  const Frame& line = live ? moved.stack[moved.stack.size() - (evidence.stack.size() - *live)] : *moved.line();
  Cause cause{"module-split-or-hook-missing", Confidence::medium,
              fmt::format("{} was on {}, where {} is, until {} took it to the CPU.",
                          state.root_class.empty() ? "The model" : state.root_class, input.device, with_place(input),
                          at(moved.line())),
              repair_of(line, {})};
  if (!live) return cause;
  const std::string_view module = module_in(*live, state), name = input.name_in(*live);
  const std::string statement = dedented(line.source);
  // Of a function that was called before, too, the line may have run before there was this input.
  // Times of one tick of the clock tell no order: then a line below has run in an earlier pass.
  const bool above = line.line < evidence.stack[*live].line;
  const bool before =
      !input.placed() || input.placed()->time < moved.time || (above && input.placed()->time == moved.time);
  const bool alone = before && !statement.ends_with(':') && statement.find('\n') == statement.npos;
  if (alone && is_reference(module) && is_identifier(name) && there_before(input, evidence.stack[*live], line))
    cause.fix->code = fmt::format("{}\n{}.to({}.device)", statement, module, name);
  // Not behind a line that opens a block, as one that takes it away for a while, nor where there was no input yet.
  for (size_t frame = *live + 1; cause.fix->code.empty() && frame-- > 0;) {
    const Frame& here = evidence.stack[frame];
    const std::string now = dedented(here.source);
    const std::string_view called = module_in(frame, state);
    std::string_view given = named_in(input, frame).name_in(frame);
    if (given.empty() && input.computed_from.size() == 1) given = input.computed_from[0].name_in(frame);
    if (here.project && is_reference(called) && is_identifier(given) && reads(now, called) == 1 &&
        reads(now, given) > 0 && !binds(now, given))
      if (auto code = replace_read(now, called, fmt::format("{}.to({}.device)", called, given)))
        cause.fix = repair_of(here, std::move(*code));
  }
  // Of a part the model may have another name, or none.
  if (cause.fix->code.empty())
    if (auto part = move_part_where_called(evidence)) cause.fix = repairing(std::move(part));
  return cause;
}

// A model that was put on the CPU, and an input that was brought to a GPU all the same.
std::optional<Cause> input_of_a_model_on_cpu(const Evidence& evidence) {
  const auto caller = evidence.caller_of_model();
  if (!caller) return std::nullopt;
  const auto pair = evidence.pair(
      [&](const Operand& it) { return !it.is_state() && !it.on_cpu() && !evidence.made_inside_model(it); },
      [&](const Operand& other) { return evidence.put_on_the_cpu(other, *caller); });
  if (!pair || by_a_stale_device(*pair.it, *pair.other)) return std::nullopt;
  // A call that left a device out has put it there: that is no wish.
  const auto left_out = [](const finding::Step& each) { return each.what == "defaulted"; };
  if (std::any_of(pair.other->lineage.begin(), pair.other->lineage.end(), left_out)) return std::nullopt;
  if (auto cause = taken_away(evidence, *pair.it, *pair.other)) return cause;
  Cause cause{kInputNotMoved, Confidence::medium,
              fmt::format("{} is given to {}, which was put on the CPU as a whole: {}.", with_place(*pair.it),
                          pair.other->root_class.empty() ? "a model" : std::string(pair.other->root_class),
                          with_place(*pair.other)),
              std::nullopt};
  if (std::ranges::any_of(pair.it->lineage, left_out))
    cause.fix = fix_at_origin_of(evidence, *pair.it, pair.other->device);
  if (!cause.fix && evidence.stack[*caller].project) cause.fix = move_at_call(evidence, *caller, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  return cause;
}

// The operation's own word for it: torch's function calls this operand its target.
bool is_target_of_loss(const Evidence& evidence, const Operand& operand) {
  for (size_t frame = 0; frame < evidence.stack.size() && !evidence.stack[frame].project; ++frame) {
    if (evidence.stack[frame].file.ends_with("/torch/nn/functional.py") && operand.name_in(frame) == "target")
      return true;
  }
  return false;
}

bool names_a_label(const Operand& operand) {
  for (const std::string_view word : {"label", "target"}) {
    if (operand.name.find(word) != operand.name.npos) return true;
    for (const finding::Name& each : operand.names) {
      if (each.name.find(word) != each.name.npos) return true;
    }
  }
  return false;
}

std::optional<Cause> label(const Evidence& evidence) {
  const bool loss = evidence.operation.find("loss") != evidence.operation.npos ||
                    evidence.operation.find("cross_entropy") != evidence.operation.npos;
  // What the classes weigh is no label, though it be counted of those.
  if (!loss || evidence.argument == "weight") return std::nullopt;
  // A loss may make its targets itself: nobody gave them.
  // Nor is it left behind where the line that brought it names a GPU without a number.
  const auto unnumbered = [](const Operand& it) {
    const Event* placed = it.placed();
    return !it.on_cpu() && placed && placed->line() &&
           (says_current_device(placed->line()->source) || it.device_from.says == "cuda");
  };
  // Computed inside the model from a label that its caller gave, it is given all the same.
  const auto from_outside = [&](const Operand& it) {
    return std::any_of(it.computed_from.begin(), it.computed_from.end(), [&](const Operand& source) {
      return source.device == it.device && !source.is_state() && names_a_label(source) &&
             !evidence.made_inside_model(source);
    });
  };
  // What another model computed is no data that a caller left behind: two models' answers are compared.
  const auto another_models = [&](const Operand& it) {
    return !it.given_by.devices.empty() && it.given_by.kind == "module" && !it.on_cpu();
  };
  const auto given = [&](const Operand& it) {
    return !it.is_state() && !another_models(it) && (!evidence.made_inside_model(it) || from_outside(it)) &&
           !unnumbered(it);
  };
  const auto pair = evidence.pair([&](const Operand& it) { return given(it) && names_a_label(it); },
                                  [](const Operand& other) { return !other.is_state() && !names_a_label(other); });
  if (!pair) return std::nullopt;
  // Beside another operand on a GPU it has not been left behind: what it meets has, the weights of the classes say.
  if (!pair.it->on_cpu() && std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& each) {
        return !names_a_label(each) && each.device == pair.it->device;
      }))
    return std::nullopt;
  // Never moved from the CPU, and compared with what a module computed on a GPU.
  const bool sure = is_target_of_loss(evidence, *pair.it) && pair.it->on_cpu() && !pair.it->moved.known() &&
                    !evidence.frame_that_made(*pair.it) && !made_by_a_module(*pair.it) && made_by_a_module(*pair.other);
  return Cause{kInputNotMoved, sure ? Confidence::high : Confidence::medium,
               fmt::format("The label {} is compared with the model's answer {}.", with_place(*pair.it),
                           with_place(*pair.other)),
               repairing(move_where_named(evidence, *pair.it, *pair.other))};
}

// A method of an object that is no module was given it, and the object has left it where it was.
std::optional<Cause> given_to_a_method(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return it.on_cpu() && !it.moved.known() && !it.is_of_state() && is_given_to_an_object(evidence, it);
      },
      [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  Cause cause{kInputNotMoved, Confidence::low,
              fmt::format("{} was given to an object that is no module and keeps it where it was made. It meets {}.",
                          with_place(*pair.it), with_place(*pair.other)),
              move_where_named(evidence, *pair.it, *pair.other)};
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

}  // namespace

// The operand, or what it was computed from, which a line of the program's took to the CPU; null: none did.
static const Operand* taken_away_from_a_gpu(const Operand& it) {
  if (it.is_of_state() || !it.on_cpu() || it.role == "attribute") return nullptr;
  const Frame* const line = it.moved.line();
  if (it.moved.known()) return line && line->project ? &it : nullptr;
  for (const Operand& source : it.computed_from)
    if (const Operand* const taken = taken_away_from_a_gpu(source)) return taken;
  return nullptr;
}

// The program took it away from where a module's state lies, and gives it to that module all the same. The outermost
// call that is given it by a name brings it back.
static std::optional<Cause> taken_away_before(const Evidence& evidence) {
  const auto pair = evidence.pair(taken_away_from_a_gpu,
                                  [](const Operand& other) { return other.is_state() && other.is_of_whole_model(); });
  if (!pair) return std::nullopt;
  const Operand* const taken = taken_away_from_a_gpu(*pair.it);
  if (taken->moved.from != pair.other->device) return std::nullopt;
  // The model itself took it away, where nobody says the CPU, and goes on with it: it would lie right without that.
  const Frame& line = *taken->moved.line();
  const Stack& passed = taken->moved.stack;
  const bool meant = std::any_of(passed.begin(), passed.end(), [](const Frame& each) {
    return each.project && each.source.find("cpu") != each.source.npos;
  });
  const auto kept = evidence.happened_inside_model(taken->moved) && !meant ? without_move(line.source) : std::nullopt;
  std::optional<Fix> fix = kept ? std::optional(repair_of(line, *kept)) : std::nullopt;
  for (size_t frame = 0; !kept && frame < evidence.stack.size(); ++frame) {
    if (!evidence.stack[frame].project || taken->name_in(frame).empty()) continue;
    if (auto here = move_at(evidence, frame, *taken, device_expression(evidence, frame, *pair.other)))
      fix = repairing(std::move(here));
  }
  return Cause{kInputNotMoved, Confidence::medium,
               fmt::format("{} was taken from {} to {} at {}, and is given to {}, whose {} is on {}.", taken->name,
                           taken->moved.from, taken->device, at(taken->moved.line()),
                           pair.other->root_class.empty() ? "a model" : pair.other->root_class, pair.other->name,
                           pair.other->device),
               fix ? std::move(fix) : use_site(evidence)};
}

// `low = down.float()` behind `high = up.float().to(weight.device)`: the function moved the one, and not the other.
std::optional<Cause> left_beside_a_move(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own) return std::nullopt;
  const Frame& here = evidence.stack[*own];
  const auto there = [&](const Operand& it) {
    const Frame* const line = it.moved.line();
    return line && line->same_function(here) ? moved_to(line->source) : std::nullopt;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return !there(it) && !it.is_of_state(); },
                                  [&](const Operand& other) { return there(other).has_value(); });
  if (!pair) return std::nullopt;
  for (const finding::Step& step : pair.it->lineage) {
    if (step.what != "assigned" || !step.line.same_function(here) || says_device(step.line.source) ||
        assigned_name(step.line.source) != pair.it->name_in(*own) || step.line.line < pair.other->moved.line()->line)
      continue;
    auto code = move_value(step.line.source, *there(*pair.other));
    if (!code) continue;
    return Cause{kInputNotMoved, Confidence::low,
                 fmt::format("{} was brought to {} at {}, and {} was not. They meet here.", pair.other->name,
                             pair.other->device, at(pair.other->moved.line()), with_place(*pair.it)),
                 repair_of(step.line, std::move(*code))};
  }
  return std::nullopt;
}

// `scale, zero = scale.to("cpu"), zero`: of one display the line moved some, and not that.
static std::optional<Fix> moved_in_one_display(const Evidence& evidence, const Operand& taken, const Operand& left) {
  constexpr std::string_view kMove = ".to(";
  const Frame& line = *taken.moved.line();
  const std::vector<std::string> targets = unpacked_names(line.source), parts = parts_of_display(value_in(line.source));
  const auto moved = std::find_if(parts.begin(), parts.end(), [&](const std::string& part) {
    return part.ends_with(')') && is_reference(part.substr(0, part.find(kMove)));
  });
  if (targets.size() < 2 || targets.size() != parts.size() || moved == parts.end()) return std::nullopt;
  for (const finding::Name& name : left.names) {
    const auto place = std::find(parts.begin(), parts.end(), name.name);
    if (name.frame >= evidence.stack.size() || !evidence.stack[name.frame].same_function(line) ||
        place == parts.end() || targets[place - parts.begin()] != name.name)
      continue;
    if (auto code = replace_read(line.source, name.name, name.name + moved->substr(moved->find(kMove))))
      return repair_of(line, std::move(*code));
  }
  return std::nullopt;
}

std::optional<Cause> taken_to_the_cpu(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    const Operand* const taken = taken_away_from_a_gpu(it);
    for (const Operand& other : evidence.operands)
      if (taken && other.device == taken->moved.from) {
        auto fix = moved_in_one_display(evidence, *taken, other);
        return Cause{kInputNotMoved, Confidence::low,
                     fmt::format("{} was taken from {} to the CPU at {}, and nothing brought it back. It meets {}.",
                                 taken->name, taken->moved.from, at(taken->moved.line()), with_place(other)),
                     fix ? std::move(fix) : use_site(evidence)};
      }
  }
  return std::nullopt;
}

std::optional<Cause> input_not_moved(const Evidence& evidence) {
  if (auto cause = label(evidence)) return cause;
  if (auto cause = model_input(evidence)) return cause;
  if (auto cause = given_to_a_model(evidence)) return cause;
  if (auto cause = taken_away_before(evidence)) return cause;
  if (auto cause = input_of_a_model_on_cpu(evidence)) return cause;
  return given_to_a_method(evidence);
}

}  // namespace devtrace::report::verdict::rules
