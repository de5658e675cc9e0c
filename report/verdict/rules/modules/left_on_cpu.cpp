// Parts of a model, or a whole one, on the CPU while the rest of the work is on a GPU.
#include "report/verdict/rules/modules/left_on_cpu.h"

#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

namespace {

// A method made a tensor of its module anew, after the module was constructed, by a line that says no device.
const Frame* made_anew(const Operand& it) {
  const Frame* made = it.created.line();
  if (!made && it.created.stack.empty() && !it.lineage.empty() && it.lineage[0].what == "made")  // NumPy's memory
    return it.on_cpu() && it.is_state() && !says_device(it.lineage[0].line.source) ? &it.lineage[0].line : nullptr;
  if (it.moved.known() || !made || !made->project || says_device(made->source)) return nullptr;
  const std::string_view path = it.module_path;
  const bool assigns = assigned_name(made->source) == fmt::format("self.{}", path.substr(path.rfind('.') + 1));
  if (!makes_tensor(made->source) && !assigns) return nullptr;
  const Stack& stack = it.created.stack;
  const bool constructed = constructs(stack, it.module_class) || constructs(stack, it.root_class);
  return it.module_class.empty() || constructed || (!assigns && in_a_constructor(stack)) ? nullptr : made;
}

// A part of a model that has been moved was constructed apart from the model: what was moved is what it had then.
const finding::Step* constructed_apart(const Evidence& evidence, const Operand& it) {
  if (!it.is_state() || !it.on_cpu() || it.moved.known() || it.root_devices.size() < 2 || it.root_class.empty())
    return nullptr;
  // What a container is constructed of was there before it.
  if (it.root_class == "Sequential" || it.root_class.starts_with("Module")) return nullptr;
  const auto step = std::find_if(it.lineage.begin(), it.lineage.end(),
                                 [](const finding::Step& each) { return each.what == "constructed"; });
  if (constructs(it.created.stack, it.root_class) || step == it.lineage.end()) return nullptr;
  // Nor is it apart where a running module that is spread itself has constructed it: the root only wraps that. But one
  // that was given a part which lay elsewhere (a layer that gets an adapter) is spread by that.
  const auto& running = evidence.refusal.modules;
  const bool given = std::any_of(step->devices.begin(), step->devices.end(),
                                 [&](const finding::DeviceExpression& each) { return each.device != it.device; });
  const bool spread = std::any_of(running.begin(), running.end(), [&](const finding::RunningModule& each) {
    const bool constructed_it = each.type == step->call ? !given : constructs(it.created.stack, each.type);
    return each.devices.size() > 1 && constructed_it;
  });
  return spread ? nullptr : &*step;
}

// A statement of a function that still runs, and behind it the move of the model that has the state there.
std::optional<Fix> move_again_behind(size_t live, const Operand& state, const Frame& call, std::string_view device) {
  const std::string_view module = module_in(live, state);
  const std::string statement = dedented(call.source);
  const std::string_view variable = variable_of(module);
  const bool bound =
      variable == "self" || find_variable(statement, variable) != statement.npos || bound_above(call, variable);
  if (!call.project || !is_reference(module) || !bound || device.empty() || statement.ends_with(':') ||
      statement.starts_with("return") || statement.find('\n') != statement.npos)
    return std::nullopt;
  return repair_of(call, fmt::format("{}\n{}.to({})", statement, module, device));
}

// A call has answered with a model that was constructed before, for somebody else, and has never been moved.
std::optional<Cause> left_where_constructed(const Evidence& evidence, const Operand& it, const Operand& state) {
  for (const finding::Step& step : state.lineage) {
    for (size_t frame = 0; step.what == "assigned" && frame < evidence.stack.size(); ++frame) {
      const bool given = evidence.stack[frame].same_function(step.line) && step.line.source.ends_with(')') &&
                         step.line.function != "<module>" && !evidence.made_under(state, frame);
      if (!given || !state.created.line()) continue;
      return Cause{"cached-state-elsewhere", Confidence::medium,
                   fmt::format("{} gives {} a {} that was there before ({}) and has stayed on the CPU; it meets {}.",
                               at(&step.line), step.line.function, of_model(state), with_place(state), with_place(it)),
                   fix_at_origin(evidence)};
    }
  }
  return std::nullopt;
}

// A function that the program's own lines call outside of functions, as main(): that runs once.
bool is_of_the_program(const Evidence& evidence, size_t frame) {
  return frame + 2 == evidence.stack.size() && evidence.stack[frame + 1].function == "<module>";
}

// Constructed by a line of a function that still runs, in this call of it: a module that every call makes anew.
const finding::Step* constructed_now(const Evidence& evidence, const Operand& it) {
  for (const finding::Step& step : it.lineage)
    for (size_t frame = 0; step.what == "constructed" && frame < evidence.stack.size(); ++frame)
      if (evidence.stack[frame].same_function(step.line) && step.line.function != "<module>" &&
          !is_of_the_program(evidence, frame) && evidence.made_under(it, frame))
        return &step;
  return nullptr;
}

// A model that lies on the CPU as a whole brings what it is given to "the" GPU by a line of its own.
std::optional<Cause> taken_away_by_the_model(const Operand& it, const Operand& state) {
  const Frame* const line = it.moved.line();
  if (!state.is_of_whole_model() || !line || owner_of(*line) != state.root_class || !says_current_device(line->source))
    return std::nullopt;
  std::string device = "next(self.parameters()).device";
  for (const finding::Step& step : it.lineage)
    if (const auto words = expression_of(step, state.device); step.what == "moved" && !words.empty()) device = words;
  auto code = redirect_move(line->source, device);
  if (!code) return std::nullopt;
  return Cause{"default-or-current-device", Confidence::medium,
               fmt::format("{} brings {} to {}, wherever {} is: all of its state is on the CPU, as {}.", at(line),
                           it.name, it.device, of_model(state), state.name),
               repair_of(*line, std::move(*code))};
}

}  // namespace

std::string of_model(const Operand& state) {
  return state.root_class.empty() ? "the model" : std::string(state.root_class);
}

std::string by_the_map(const Operand& state) {
  const std::string_view entry = state.device_map;
  if (entry.empty()) return {};
  const size_t colon = entry.find(": ");
  if (colon == entry.npos) return fmt::format(" The model's hf_device_map does not name {}.", state.module_path);
  if (entry.substr(colon + 2) == state.device) return {};
  return fmt::format(" The model's hf_device_map has {} on {}: something moved {} afterwards.", entry.substr(0, colon),
                     entry.substr(colon + 2), state.module_path);
}

std::optional<Cause> replaced_by_a_method(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) { return it.is_state() && made_anew(it); },
      [](const Operand& other) { return !made_anew(other) && (other.is_state() || other.came_from_state()); });
  if (!pair) return std::nullopt;
  const Frame& made = *made_anew(*pair.it);
  std::optional<Fix> fix;
  // Both are attributes of the one module whose method that is.
  for (size_t frame = 0; frame < evidence.stack.size() && !fix; ++frame) {
    const std::string_view name = pair.it->name_in(frame), other = pair.other->name_in(frame);
    if (!name.starts_with("self.") || !other.starts_with("self.") || !is_identifier(name.substr(5)) ||
        !is_reference(other))
      continue;
    if (reads(made.source, name) != 0 || !dedented(made.source).starts_with(fmt::format("{} = ", name))) continue;
    if (auto code = give_device(made.source, fmt::format("{}.device", other))) fix = repair_of(made, std::move(*code));
  }
  for (const finding::Step& step : pair.it->lineage) {
    const std::string_view device = expression_of(step, pair.other->device);
    if (fix || !step.line.same_line(made) || device.empty()) continue;
    if (auto code = move_value(made.source, device)) fix = repair_of(made, std::move(*code));
  }
  if (!fix) fix = fix_at_origin(evidence);
  if (!fix) fix = repair_of(made, {});
  return Cause{"created-without-device", Confidence::medium,
               fmt::format("{} is a {} that {} made anew on {}, after {} was moved: that line says no device. It meets "
                           "{}.",
                           with_place(*pair.it), pair.it->role.empty() ? "tensor" : pair.it->role, made.function,
                           pair.it->device, pair.it->module_class, with_place(*pair.other)),
               std::move(fix)};
}

std::optional<Cause> part_constructed_later(const Evidence& evidence) {
  const auto pair =
      evidence.pair([&](const Operand& it) { return constructed_apart(evidence, it) != nullptr; },
                    [&](const Operand& other) { return !other.on_cpu() && !constructed_apart(evidence, other); });
  if (!pair) return std::nullopt;
  const finding::Step& step = *constructed_apart(evidence, *pair.it);
  Cause cause{"created-without-device", Confidence::medium,
              fmt::format("{} is a part of {}, which lies elsewhere: {} constructs {} on the CPU apart from it, and no "
                          "move of the model came after that. It meets {}.",
                          with_place(*pair.it), of_model(*pair.it), at(&step.line), step.call, with_place(*pair.other)),
              fix_at_origin(evidence)};
  if (!cause.fix) cause.fix = repair_of(step.line, {});
  return cause;
}

std::optional<Cause> registered_after_the_move(const Evidence& evidence, const Operand& input, const Operand& state) {
  const Stack& made = state.created.stack;
  if (state.moved.known() || state.root_devices.size() < 2 || constructs(made, state.root_class) ||
      !state.created.line() || !state.created.line()->project)
    return std::nullopt;
  const auto live = frame_that_went_on(evidence, made);
  const bool runs = std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                                [&](const auto& each) { return each.type == state.root_class; });
  if (!runs || !live || made.size() + *live <= evidence.stack.size()) return std::nullopt;
  const Frame& call = made[made.size() - (evidence.stack.size() - *live)];
  auto device = device_in_earlier_line(evidence, call, input);
  for (const finding::Step& step : state.lineage)
    if (const auto known = expression_of(step, input.device); !device && step.line.same_line(call) && !known.empty())
      device = std::string(known);
  if (!device && state.role == "buffer") device = fmt::format("next({}.parameters()).device", module_in(*live, state));
  auto fix = move_again_behind(*live, state, call, device.value_or(""));
  if (!fix) return std::nullopt;
  return Cause{kModuleSplit, Confidence::medium,
               fmt::format("{} was given to {} by {} after that was moved. It meets {}.", with_place(state),
                           of_model(state), state.created.line()->function, with_place(input)),
               std::move(fix)};
}

std::optional<Cause> saved_on_the_way(const Evidence& evidence) {
  const auto saved = [](const Operand& it) -> const Frame* {
    const Frame* const line = it.moved.line();
    const bool goes = line && line->project && it.is_state() && it.on_cpu();
    return goes && line->source.find(".cpu().state_dict()") != std::string::npos ? line : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return saved(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair || pair.it->moved.from != pair.other->device) return std::nullopt;
  const Frame& line = *saved(*pair.it);
  std::string code = dedented(line.source);
  constexpr std::string_view kMove = ".cpu()";
  for (size_t at; (at = code.find(".cpu().state_dict()")) != std::string::npos;) code.erase(at, kMove.size());
  return Cause{kModuleSplit, Confidence::high,
               fmt::format("{} was on {} until {} saved it: a module's .cpu() moves the module itself. It meets {}.",
                           pair.it->name, pair.it->moved.from, at(&line), with_place(*pair.other)),
               repair_of(line, std::move(code))};
}

std::optional<Cause> parts_of_no_module(const Evidence& evidence) {
  const auto other_part = [](const Operand& state, std::string_view device) {
    const std::pair<const Holder*, const finding::Part*> none;
    for (const Chain& chain : state.held_by) {
      for (const Holder& holder : chain.holders) {
        for (const finding::Part& part : holder.modules) {
          if (chain.name.starts_with(fmt::format("{}.{}.", holder.name, part.name))) continue;
          if (part.devices.size() == 1 && part.devices[0] == device) return std::pair(&holder, &part);
        }
        if (holder.is_module()) break;
      }
    }
    return none;
  };
  // What the failing call itself brings to its device, as a hook in front of it does, is moved whenever it is called.
  const auto whole = [&](const Operand& it) {
    return it.is_state() && it.is_of_whole_model() && !evidence.happened_inside_model(it.moved);
  };
  const auto pair = evidence.pair(whole, [](const Operand& other) { return !other.is_state(); });
  if (!pair) return std::nullopt;
  const auto [holder, part] = other_part(*pair.it, pair.other->device);
  if (!part) return std::nullopt;
  Cause cause{
      kModuleSplit, Confidence::medium,
      fmt::format("{} is no module and holds several: {} is on {}, and {} of another one is on {}. Moving the one "
                  "did not move the other, and what is brought to the one meets the other: {}.",
                  holder->type, part->name, pair.other->device, pair.it->name, pair.it->device,
                  with_place(*pair.other)),
      std::nullopt};
  // The model that was left, brought to where its input is; none is taken to the CPU for its input's sake.
  for (const Operand& given : evidence.operands) {
    if (cause.fix || given.on_cpu() || given.is_state() || given.device != pair.other->device) continue;
    for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
      const Frame& here = evidence.stack[frame];
      const std::string_view name = given.name_in(frame);
      if (!here.project || !is_identifier(name) || evidence.caller_of_model() != frame) continue;
      const auto callee = callee_of(here.source, name);
      if (callee && here.source.find('\n') == here.source.npos)
        cause.fix = line_fix(here, fmt::format("{}.to({}.device)\n{}", *callee, name, dedented(here.source)));
      break;
    }
  }
  if (const auto caller = evidence.caller_of_model(); !cause.fix && caller && pair.it->on_cpu())
    if ((cause.fix = move_model_at(evidence, *caller, *pair.it, *pair.other))) cause.fix->repairs = Repairs::line;
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

namespace {

// What a method of the module's has made of nothing where its words say, `torch.linspace(0, 1, n, device=place)`: the
// operand, or all that it was computed from there. Null: no method has.
const Operand* made_by_method_of(const Operand& state, const Operand& it) {
  const Operand* from = &it;
  while (from->computed_from.size() == 1 && from->computed_from[0].device == it.device) from = &from->computed_from[0];
  const Frame* const made = from->created.line();
  const bool by_method = made && made->project && makes_tensor(made->source) && says_device(made->source) &&
                         made->function.starts_with(state.root_class + ".");
  return by_method && from->computed_from.empty() && !from->moved.known() ? from : nullptr;
}

// Nobody gave it that: its own method said another device.
std::optional<Cause> made_elsewhere_by_a_method(const Evidence& evidence) {
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands) {
      if (it.on_cpu() || it.is_of_state() || !other.is_state() || !other.on_cpu() || !other.is_of_whole_model())
        continue;
      const Operand* const made = made_by_method_of(other, it);
      if (!made) continue;
      Cause cause{kModuleSplit, Confidence::medium,
                  fmt::format("{} was made by a method of {}, all of whose state is on the CPU. It meets {}.",
                              with_place(*made), of_model(other), other.name),
                  std::nullopt};
      for (const finding::Step& step : made->lineage) {
        const std::string_view device = step.what == "made" ? expression_of(step, other.device) : std::string_view();
        auto code = device.empty() ? std::nullopt : say_device(step.line.source, device);
        if (code) cause.fix = repair_of(step.line, std::move(*code));
      }
      if (!cause.fix) cause.fix = use_site(evidence);
      return cause;
    }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> made_elsewhere_by_the_model(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) { return !it.is_of_state() && !it.on_cpu() && evidence.made_inside_model(it); },
      [](const Operand& other) { return other.is_state() && other.on_cpu() && other.is_of_whole_model(); });
  const bool given_there = std::any_of(evidence.operands.begin(), evidence.operands.end(),
                                       [](const Operand& each) { return !each.is_of_state() && each.on_cpu(); });
  if (!pair || !given_there) return made_elsewhere_by_a_method(evidence);
  Cause cause{kModuleSplit, Confidence::medium,
              fmt::format("{} was made inside {}, all of whose state is on the CPU, as is what it was given.",
                          with_place(*pair.it), of_model(*pair.other)),
              std::nullopt};
  for (const finding::Step& step : pair.it->lineage) {
    if (step.what == "made" || step.what == "returned") cause.fix = repair_of(step.line, {});
    if (step.what != "given") continue;
    if (auto code = edit_of_step(evidence, step, *pair.it, expression_of(step, pair.other->device))) {
      cause.fix = repair_of(step.line, std::move(*code));
      break;
    }
  }
  return cause;
}

std::optional<Cause> left_on_cpu(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_state() && !it.on_cpu(); },
                                  [](const Operand& other) { return other.is_state() && other.on_cpu(); });
  const auto caller = evidence.caller_of_model();
  if (!pair || !caller || evidence.put_on_the_cpu(*pair.other, *caller)) return std::nullopt;
  if (const finding::Step* step = constructed_now(evidence, *pair.other); step && pair.other->is_of_whole_model())
    return Cause{"created-without-device", Confidence::medium,
                 fmt::format("{} is constructed in this call, by {}, and stays on the CPU: {} meets {}.",
                             of_model(*pair.other), at(&step->line), pair.other->name, with_place(*pair.it)),
                 fix_at_origin(evidence)};
  if (const finding::Step* step = placed_when_constructed(*pair.other)) {
    std::optional<Fix> fix;
    for (const finding::Step& each : pair.it->lineage)
      if (!fix) fix = say_where_the_other_is(each, *pair.it, *pair.other);
    return Cause{"input-not-moved", Confidence::medium,
                 fmt::format("{} constructs {} and puts it on the CPU; {} meets {}.", at(&step->line),
                             of_model(*pair.other), with_place(*pair.it), pair.other->name),
                 fix ? std::move(fix) : move_where_named(evidence, *pair.it, *pair.other)};
  }
  if (auto cause = taken_away_by_the_model(*pair.it, *pair.other)) return cause;
  if (auto cause = left_where_constructed(evidence, *pair.it, *pair.other)) return cause;
  if (auto cause = registered_after_the_move(evidence, *pair.it, *pair.other)) return cause;
  Cause cause{kModuleSplit, Confidence::medium,
              (pair.other->moved.known()
                   ? fmt::format("{} meets {}, which was taken to the CPU while other parts of {} stayed.",
                                 with_place(*pair.it), with_place(*pair.other), of_model(*pair.other))
                   : fmt::format("{} came in on {}, and {} is on the CPU: {} or this part of it was never moved.",
                                 with_place(*pair.it), pair.it->device, pair.other->name, of_model(*pair.other))) +
                  by_the_map(*pair.other),
              std::nullopt};
  if (pair.other->hidden()) return cause;  // no .to() of the model reaches it
  const Frame& here = evidence.stack[*caller];
  const std::string_view name = pair.it->name_in(*caller);
  const auto callee = callee_with(here.source, name);
  cause.fix = fix_at_origin(evidence);
  // Methods of the model itself call its parts. It is moved where these are called, and not in a decorator of
  // PyTorch's.
  const auto within = [&](const Frame& frame) { return owner_of(frame) == pair.other->root_class || !frame.project; };
  size_t outside = *caller;
  while (pair.other->is_of_whole_model() && outside < evidence.stack.size() && within(evidence.stack[outside]))
    ++outside;
  if (!cause.fix && outside != *caller && outside < evidence.stack.size())
    cause.fix = move_called(evidence, outside, *pair.it, {});
  if (!cause.fix && callee && here.project && here.source.find('\n') == here.source.npos) {
    const std::string device = device_expression(evidence, *caller, *pair.it);
    cause.fix = repair_of(here, fmt::format("{}.to({})\n{}", *callee, device, dedented(here.source)));
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
