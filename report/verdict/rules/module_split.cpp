// Parameters of one model on several devices: a device map without hooks, a part left behind by .to(), or a model that
// was never moved.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"
#include "report/verdict/step_edit.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kModuleSplit = "module-split-or-hook-missing";

std::string of_model(const Operand& state) {
  return state.root_class.empty() ? "the model" : std::string(state.root_class);
}

// What accelerate's map of the model adds, when it does not say the same.
std::string by_the_map(const Operand& state) {
  const std::string_view entry = state.device_map;
  if (entry.empty()) return {};
  const size_t colon = entry.find(": ");
  if (colon == entry.npos) return fmt::format(" The model's hf_device_map does not name {}.", state.module_path);
  if (entry.substr(colon + 2) == state.device) return {};
  return fmt::format(" The model's hf_device_map has {} on {}: something moved {} afterwards.", entry.substr(0, colon),
                     entry.substr(colon + 2), state.module_path);
}

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

std::optional<Cause> two_parts(const Evidence& evidence) {
  const auto state = [](const Operand& operand) { return operand.is_state(); };
  const auto pair = evidence.pair(state, state);
  if (!pair || !evidence.caller_of_model()) return std::nullopt;  // or somebody compares two models
  return Cause{kModuleSplit, pair.it->root_class == pair.other->root_class ? Confidence::high : Confidence::medium,
               fmt::format("Two parts of {} that work together are on different devices: {} and {}.",
                           of_model(*pair.it), with_place(*pair.it), with_place(*pair.other)) +
                   by_the_map(*pair.it) + by_the_map(*pair.other),
               std::nullopt};
}

// Do the modules whose methods run, or the model of the operand, lie on several devices? Nothing: not known.
std::optional<bool> spread(const Evidence& evidence, const Operand& state) {
  if (state.root_devices.size() >= 2) return true;
  bool known = !state.root_devices.empty();
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    if (module.devices.size() >= 2) return true;
    known = known || !module.devices.empty();
  }
  return known ? std::optional(false) : std::nullopt;
}

// Does accelerate's hook on the state's module send its inputs to where the other operand is?
bool hook_sends_to(const Operand& state, std::string_view device) {
  const size_t begin = state.hook.find("execution_device=");
  if (begin == state.hook.npos || !device.starts_with("cuda:")) return false;
  std::string_view where = std::string_view(state.hook).substr(begin + 17);
  where = where.substr(0, where.find(')'));
  return where == device || where == device.substr(5);
}

// A line took one of a module's tensors away from where another one of the same module had come before.
std::optional<Cause> taken_from_its_module(const Evidence& evidence) {
  const auto module_of = [](const Operand& it) { return it.module_path.substr(0, it.module_path.rfind('.') + 1); };
  const auto taken = [](const Operand& it) {
    return it.is_state() && it.moved.known() && it.moved.line() && it.moved.line()->project && it.moved.time;
  };
  const auto pair = evidence.pair(taken, [](const Operand& other) { return other.is_state(); });
  if (!pair || pair.it->moved.from != pair.other->device || pair.it->root_class != pair.other->root_class ||
      module_of(*pair.it) != module_of(*pair.other) || !pair.other->placed() || !pair.other->placed()->time ||
      *pair.other->placed()->time > *pair.it->moved.time)
    return std::nullopt;
  return Cause{
      kModuleSplit, Confidence::medium,
      fmt::format("{} was on {}, where {} of the same module is, until {} took it to {}, and not that.", pair.it->name,
                  pair.it->moved.from, with_place(*pair.other), at(pair.it->moved.line()), pair.it->device),
      use_site(evidence)};
}

// `copy.to(device=kind)` → `copy.to(device=next(copy.parameters()).device)`, of a line that moves a module; a model
// that a map has spread over devices is not moved at all.
std::optional<std::string> left_where_it_was(const Operand& state, const Frame& line) {
  const std::string statement = dedented(line.source);
  const std::string name = statement.substr(0, statement.find(".to("));
  if (!state.is_parameter || !is_reference(name)) return std::nullopt;
  const bool mapped = state.device_map.ends_with(fmt::format(": {}", state.moved.from));
  const bool model = std::any_of(state.names.begin(), state.names.end(), [&](const auto& each) {
    return each.name == fmt::format("{}.{}", name, state.module_path);
  });
  if (mapped && model && only_moves(statement))
    return fmt::format("if not hasattr({}, \"hf_device_map\"):\n    {}", name, statement);
  return redirect_move(line.source, fmt::format("next({}.parameters()).device", name));
}

// A hook sends inputs to where the module's state was until a line took that to the device that was current.
std::optional<Cause> taken_from_its_hook(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) {
        const Frame* const line = it.moved.line();
        return it.is_state() && line && line->project && hook_sends_to(it, it.moved.from);
      },
      [](const Operand& other) { return !other.is_state(); });
  if (!pair || pair.other->device != pair.it->moved.from) return std::nullopt;
  const Frame& line = *pair.it->moved.line();
  auto code = left_where_it_was(*pair.it, line);
  if (!code) return std::nullopt;
  const bool unsaid = says_current_device(line.source) || pair.it->device_from.says == "cuda";
  return Cause{unsaid ? "default-or-current-device" : kModuleSplit, Confidence::medium,
               fmt::format("{} was on {}, where {} still brings what its module is given, until {} took it to {}. It "
                           "meets {}.",
                           pair.it->name, pair.it->moved.from, pair.it->hook, at(&line), pair.it->device,
                           with_place(*pair.other)),
               repair_of(line, std::move(*code))};
}

// In the line of the module that has both parts: what it gives to one of them, which lies whole where the state is.
std::optional<Fix> move_into_part(const Evidence& evidence, const Operand& it, const Operand& state) {
  const auto& running = evidence.refusal.modules;  // innermost first
  const auto outer =
      std::find_if(running.begin(), running.end(), [](const auto& each) { return each.devices.size() > 1; });
  if (outer == running.begin() || outer == running.end() || outer->frame >= evidence.stack.size() ||
      (outer - 1)->devices.size() != 1 || (outer - 1)->devices[0] != state.device)
    return std::nullopt;
  const Frame& here = evidence.stack[outer->frame];
  std::vector<std::string_view> names{it.name_in(outer->frame)};
  for (const finding::Mention& each : evidence.refusal.mentions)
    if (each.frame == outer->frame && each.device == it.device) names.push_back(each.name);
  for (const std::string_view name : names) {
    const auto part = here.project && is_reference(name) ? callee_of(here.source, name) : std::nullopt;
    // A loop over the parts has a variable for each.
    const auto of_part = [&](const finding::Name& each) {
      return each.frame == outer->frame && each.name.starts_with(*part + ".");
    };
    if (!part || std::none_of(state.names.begin(), state.names.end(), of_part)) continue;
    const std::string device =
        fmt::format("next({}.{}()).device", *part, state.role == "buffer" ? "buffers" : "parameters");
    if (auto code = replace_read(here.source, name, fmt::format("{}.to({})", name, device)))
      return repair_of(here, std::move(*code));
  }
  return std::nullopt;
}

// A method registered it after the model was moved: the model is moved again behind the call of that.
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

// All of the model's state is on the CPU, and yet one of its layers has computed on a GPU. Something brings a layer's
// state there while that runs, and knows of nothing that is used without a call.
std::optional<Cause> fetched_for_its_layers(const Evidence& evidence, const Operand& it, const Operand& state) {
  const auto of_weights = [](const Frame& frame) {
    constexpr std::string_view kFiles[] = {"/nn/modules/linear.py", "/nn/modules/conv.py", "/nn/modules/sparse.py"};
    return std::ranges::any_of(kFiles, [&](std::string_view each) { return frame.file.ends_with(each); });
  };
  const auto& running = evidence.refusal.modules;
  const auto model = std::ranges::find(running, state.root_class, &finding::RunningModule::type);
  if (!state.on_cpu() || it.on_cpu() || !state.hook.empty() || model == running.end() ||
      model->frame >= evidence.stack.size() || std::ranges::none_of(it.created.stack, of_weights))
    return std::nullopt;
  const auto of_the_model = [&](const Frame& frame) { return frame.same_function(evidence.stack[model->frame]); };
  if (std::ranges::none_of(it.created.stack, of_the_model)) return std::nullopt;
  return Cause{kModuleSplit, Confidence::medium,
               fmt::format("{} was computed by a layer of {} on {}, and all that is registered lies on the CPU: "
                           "something brings a layer's state there while it runs, and not {}.",
                           with_place(it), of_model(state), it.device, state.name),
               repairing(move_where_named(evidence, state, it))};
}

// Constructed by a call that left out a parameter for its device, and has words for the one where the other operand is.
bool placed_by_a_default(const Operand& state, const Operand& other) {
  return std::any_of(state.lineage.begin(), state.lineage.end(), [&](const finding::Step& step) {
    return step.what == "defaulted" && !expression_of(step, other.device).empty();
  });
}

std::optional<Cause> passed_between_parts(const Evidence& evidence) {
  const auto pair = evidence.pair([&](const Operand& it) { return !it.is_state() && evidence.made_inside_model(it); },
                                  [](const Operand& other) { return other.is_of_state(); });
  if (!pair || (!pair.other->on_cpu() && placed_by_a_default(*pair.other, *pair.it))) return std::nullopt;
  // A model that lies on one device as a whole, and no hook that sends anything elsewhere, is not spread: it was given
  // something from elsewhere.
  const auto is_spread = spread(evidence, *pair.other);
  const bool sent = hook_sends_to(*pair.other, pair.it->device);
  if (is_spread == false && !sent) return fetched_for_its_layers(evidence, *pair.it, *pair.other);
  const bool proven = (is_spread == true && (pair.other->is_state() || !pair.other->view_of.empty())) || sent;
  const Confidence confidence = proven ? Confidence::high : Confidence::medium;
  if (pair.other->on_cpu()) {
    if (auto cause = registered_after_the_move(evidence, *pair.it, *pair.other)) return cause;
    return Cause{kModuleSplit, confidence,
                 fmt::format("{} was computed by {} on {}, and {} of the same model was left on the CPU.",
                             pair.it->name, of_model(*pair.other), pair.it->device, with_place(*pair.other)) +
                     by_the_map(*pair.other),
                 std::nullopt};
  }
  const std::string hook = pair.other->hook.empty() ? "and nothing moves what passes between its parts"
                                                    : fmt::format("and {} did not move it", pair.other->hook);
  // What was taken from where the map has it is used beside what it is for: that goes nowhere for it.
  auto fix = move_into_part(evidence, *pair.it, *pair.other);
  // State of another part that this one was given goes to where this one works.
  const bool given = evidence.own_device() == pair.it->device;
  if (!fix && given) fix = move_where_named(evidence, *pair.other, *pair.it);
  if (!fix) fix = move_where_named(evidence, *pair.it, *pair.other);
  const bool from_its_place = pair.other->device_map.ends_with(": " + pair.it->device);
  return Cause{kModuleSplit, confidence,
               fmt::format("{} was computed inside {} on {} and meets {}: the model is spread over devices, {}.",
                           pair.it->name, of_model(*pair.other), pair.it->device, with_place(*pair.other), hook) +
                   by_the_map(*pair.other),
               from_its_place ? move_where_named(evidence, *pair.other, *pair.it) : std::move(fix)};
}

// Parts of a spread model on another device use what it keeps on one.
std::optional<Cause> kept_on_one_device(const Evidence& evidence) {
  const auto pair =
      evidence.pair([&](const Operand& it) { return spread_owner(evidence, it) != nullptr; },
                    [&](const Operand& other) { return !other.on_cpu() && !spread_owner(evidence, other); });
  if (!pair) return std::nullopt;
  return Cause{kModuleSplit, Confidence::medium,
               fmt::format("{} was made when {} was constructed, on one of the devices that its parts are spread over. "
                           "A part on another one uses it, too: it meets {}.",
                           with_place(*pair.it), spread_owner(evidence, *pair.it)->type, with_place(*pair.other)),
               move_where_named(evidence, *pair.it, *pair.other)};
}

// Two results of the model's own layers, and nobody moved either: the layers are on different devices.
std::optional<Cause> computed_apart(const Evidence& evidence) {
  const auto of_a_layer = [&](const Operand& it) {
    return !it.is_of_state() && !it.moved.known() && !it.on_cpu() && evidence.made_inside_model(it) &&
           made_by_a_layer(it);
  };
  const auto pair = evidence.pair(of_a_layer, of_a_layer);
  if (!pair) return std::nullopt;
  return Cause{kModuleSplit, Confidence::medium,
               fmt::format("{} and {} were computed by parts of one model that are on different devices, and nothing "
                           "moves what passes between them.",
                           with_place(*pair.it), with_place(*pair.other)),
               use_site(evidence)};
}

std::string of_parts(const finding::RunningModule& module, std::string_view device) {
  std::string names;
  for (const finding::Part& part : module.parts) {
    if (std::find(part.devices.begin(), part.devices.end(), device) == part.devices.end()) continue;
    names += (names.empty() ? "" : ", ") + std::string(part.name);
  }
  return names.empty() ? "a part of it" : names;
}

bool moved_by_hand(const Operand& operand) {
  return operand.moved.known() &&
         std::none_of(operand.moved.stack.begin(), operand.moved.stack.end(),
                      [](const Frame& frame) { return frame.file.find("/accelerate/hooks.py") != frame.file.npos; });
}

// Was it made while a part of the module ran whose code stands at `frame`, or by an earlier call of such code? What the
// code itself made further up in this call, from what it was given, says nothing about parts.
bool made_by_a_part(const Evidence& evidence, size_t frame, const Operand& it) {
  const Stack& made = it.created.stack;
  const size_t depth = evidence.stack.size() - frame;
  if (made.size() < depth) return true;
  const Frame& there = made[made.size() - depth];
  return !there.same_function(evidence.stack[frame]) || made.size() > depth || there.line >= evidence.stack[frame].line;
}

// The module whose own code fails has parts on both devices, each of them whole, and is itself a part of a model: what
// it computes with them lies apart. (A whole model may well be spread.)
std::optional<Cause> inside_a_split_module(const Evidence& evidence) {
  const auto frame = innermost_project(evidence.stack);
  if (!frame) return std::nullopt;
  const auto module = std::find_if(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                                   [&](const auto& each) { return each.frame == *frame && each.devices.size() >= 2; });
  if (module == evidence.refusal.modules.end() || module + 1 == evidence.refusal.modules.end()) return std::nullopt;
  if (std::any_of(module->parts.begin(), module->parts.end(), [](const auto& part) { return part.devices.size() > 1; }))
    return std::nullopt;
  const auto on_a_part = [&](const Operand& it) {
    return !it.is_of_state() && !it.on_cpu() && !moved_by_hand(it) && made_by_a_module(it) &&
           made_by_a_part(evidence, *frame, it) &&
           std::find(module->devices.begin(), module->devices.end(), it.device) != module->devices.end();
  };
  const auto pair = evidence.pair(on_a_part, on_a_part);
  if (!pair) return std::nullopt;
  // Hooks that were put there for a device map: nobody placed these parts by hand.
  const bool hooks = std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                                 [](const auto& each) { return each.hook.starts_with("AlignDevicesHook"); });
  std::string because = fmt::format(
      "{} itself is split: {} on {}, {} on {}. Its own code brings {} and {} together, which lie where its parts are.",
      module->type, of_parts(*module, pair.it->device), pair.it->device, of_parts(*module, pair.other->device),
      pair.other->device, pair.it->name, pair.other->name);
  if (hooks)
    because += fmt::format(
        " accelerate's hooks move what a part is given, and not what {} uses beside them: its device "
        "map should keep {} whole (no_split_module_classes).",
        module->type, module->type);
  return Cause{kModuleSplit, hooks ? Confidence::high : Confidence::medium, std::move(because),
               move_where_named(evidence, *pair.it, *pair.other)};
}

// What a part of a model gave that accelerate's hooks spread, used outside of that model.
std::optional<Cause> outside_of_hooks(const Evidence& evidence) {
  const auto under_hooks = [](const Operand& it) {
    return !it.is_of_state() && !it.moved.known() &&
           std::any_of(it.created.stack.begin(), it.created.stack.end(),
                       [](const Frame& frame) { return frame.file.find("/accelerate/hooks.py") != frame.file.npos; });
  };
  if (evidence.caller_of_model()) return std::nullopt;
  const auto pair = evidence.pair(under_hooks, [&](const Operand& other) { return !under_hooks(other); });
  if (!pair) return std::nullopt;
  return Cause{
      kModuleSplit, Confidence::medium,
      fmt::format("{} was computed by a part of a model that accelerate has spread over devices, and lies where "
                  "that part is. Outside of the model nothing moves it: it meets {}.",
                  with_place(*pair.it), with_place(*pair.other)),
      use_site(evidence)};
}

// `torch.save(model.cpu().state_dict(), path)`: a module goes to the CPU itself, and stays there.
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

// An object that is no module holds several: .to() of one of them does not reach the others.
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

// A model that lies on the CPU as a whole was given what lies there, too, and has made something on a GPU by itself.
std::optional<Cause> made_elsewhere_by_the_model(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) { return !it.is_of_state() && !it.on_cpu() && evidence.made_inside_model(it); },
      [](const Operand& other) { return other.is_state() && other.on_cpu() && other.is_of_whole_model(); });
  const bool given_there = std::any_of(evidence.operands.begin(), evidence.operands.end(),
                                       [](const Operand& each) { return !each.is_of_state() && each.on_cpu(); });
  if (!pair || !given_there) return std::nullopt;
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

// The input is on a GPU and what it meets first is on the CPU: the model was not moved, or this part of it.
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
  const Frame& here = evidence.stack[*caller];
  const std::string_view name = pair.it->name_in(*caller);
  const auto callee = callee_with(here.source, name);
  cause.fix = fix_at_origin(evidence);
  // Methods of the model itself call its parts. It is moved where these are called.
  size_t outside = *caller;
  while (pair.other->is_of_whole_model() && outside < evidence.stack.size() &&
         owner_of(evidence.stack[outside]) == pair.other->root_class)
    ++outside;
  if (!cause.fix && outside != *caller && outside < evidence.stack.size())
    cause.fix = move_called(evidence, outside, *pair.it, {});
  if (!cause.fix && callee && here.project && here.source.find('\n') == here.source.npos) {
    const std::string device = device_expression(evidence, *caller, *pair.it);
    cause.fix = repair_of(here, fmt::format("{}.to({})\n{}", *callee, device, dedented(here.source)));
  }
  return cause;
}

}  // namespace

const finding::RunningModule* spread_owner(const Evidence& evidence, const Operand& it) {
  const auto hidden = it.hidden();
  if (!hidden || it.on_cpu() || it.moved.known()) return nullptr;
  const auto& running = evidence.refusal.modules;
  const auto owner = std::find_if(running.begin(), running.end(), [&](const finding::RunningModule& each) {
    return each.type == hidden.owner().type && each.devices.size() > 1 &&
           std::find(each.devices.begin(), each.devices.end(), it.device) != each.devices.end();
  });
  return owner == running.end() || !constructs(it.created.stack, owner->type) ? nullptr : &*owner;
}

std::optional<Cause> module_split(const Evidence& evidence) {
  if (auto cause = replaced_by_a_method(evidence)) return cause;
  if (auto cause = part_constructed_later(evidence)) return cause;
  if (auto cause = taken_from_its_module(evidence)) return cause;
  if (auto cause = two_parts(evidence)) return cause;
  if (auto cause = taken_from_its_hook(evidence)) return cause;
  if (auto cause = passed_between_parts(evidence)) return cause;
  if (auto cause = saved_on_the_way(evidence)) return cause;
  if (auto cause = parts_of_no_module(evidence)) return cause;
  if (auto cause = kept_on_one_device(evidence)) return cause;
  if (auto cause = made_elsewhere_by_the_model(evidence)) return cause;
  if (auto cause = left_on_cpu(evidence)) return cause;
  if (auto cause = inside_a_split_module(evidence)) return cause;
  if (auto cause = outside_of_hooks(evidence)) return cause;
  return computed_apart(evidence);
}

}  // namespace devtrace::report::verdict::rules
