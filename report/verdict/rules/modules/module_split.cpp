// Parameters of one model on several devices: a device map without hooks, or a part that a line took elsewhere.
#include <algorithm>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/rules.h"
#include "report/verdict/rules/modules/left_on_cpu.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

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

// Did the line move the model that the state's path begins at? Each module on the way hands the move on to its parts.
bool moved_as_a_whole(const Operand& state) {
  const auto hands_on = std::ranges::count(state.moved.stack, "Module._apply", &Frame::function);
  return hands_on == std::ranges::count(state.module_path, '.') + 1;
}

// `copy.to(device=kind)` → `copy.to(device=next(copy.parameters()).device)`, of a line that moves a module; a model
// that a map has spread over devices is not moved at all.
std::optional<std::string> left_where_it_was(const Operand& state, const Frame& line) {
  const std::string statement = dedented(line.source), value(value_in(line.source));
  const std::string_view moved = value.empty() ? statement : value;
  const std::string_view callee = moved.substr(0, moved.find('(')), name = callee.substr(0, callee.rfind('.'));
  if (!state.is_parameter || !is_reference(name) || !(callee.ends_with(".to") || callee.ends_with(".cuda")))
    return std::nullopt;
  if (name.ends_with("Module")) return std::nullopt;  // `nn.Module.cuda(model)` moves what it is given
  const bool mapped = state.device_map.ends_with(fmt::format(": {}", state.moved.from));
  if (mapped && moved_as_a_whole(state) && only_moves(moved)) {
    if (only_moves(statement)) return fmt::format("if not hasattr({}, \"hf_device_map\"):\n    {}", name, statement);
    return replace_value(line.source, fmt::format("{0} if hasattr({0}, \"hf_device_map\") else {1}", name, value));
  }
  return value.empty() ? redirect_move(line.source, fmt::format("next({}.parameters()).device", name)) : std::nullopt;
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
                           with_place(*pair.other)) +
                   by_the_map(*pair.it),
               repair_of(line, std::move(*code))};
}

// Did a hook of the program's own bring it, or what it was computed from: a function that PyTorch calls around
// forward()?
bool brought_by_a_hook(const Operand& it) {
  const auto by_hook = [](const Operand& each) {
    const Stack& stack = each.moved.stack;
    const auto call = std::ranges::find_if(stack, [](const Frame& frame) {
      return frame.function.starts_with("Module._call_impl") && frame.file.ends_with("/torch/nn/modules/module.py");
    });
    return call != stack.begin() && call != stack.end() && (call - 1)->project &&
           !(call - 1)->function.ends_with(".forward");
  };
  return by_hook(it) || std::ranges::any_of(it.computed_from, [&](const Operand& source) {
           return source.device == it.device && by_hook(source);
         });
}

// Did the code of a running module itself bring it, or what it was computed from, within this call?
bool brought_by_the_model(const Evidence& evidence, const Operand& it) {
  const auto by_its_code = [&](const Operand& each) {
    const Frame* const line = each.moved.line();
    return line && line->project && evidence.happened_inside_model(each.moved) &&
           std::ranges::any_of(evidence.refusal.modules, [&](const finding::RunningModule& running) {
             return running.frame < evidence.stack.size() && evidence.stack[running.frame].same_function(*line);
           });
  };
  return by_its_code(it) || std::ranges::any_of(it.computed_from, [&](const Operand& source) {
           return source.device == it.device && by_its_code(source);
         });
}

// The same with hooks that accelerate has not made. Or with none, where the model's own code knows where its parts
// were, and the line chose no GPU.
std::optional<Cause> taken_from_its_inputs(const Evidence& evidence) {
  const auto pair =
      evidence.pair([](const Operand& it) { return it.is_state() && it.moved.line() && it.moved.line()->project; },
                    [&](const Operand& other) {
                      return !other.is_state() && !other.on_cpu() &&
                             (brought_by_a_hook(other) || brought_by_the_model(evidence, other));
                    });
  if (!pair || pair.other->device != pair.it->moved.from) return std::nullopt;
  const Frame& line = *pair.it->moved.line();
  const bool chose = !says_current_device(line.source) && pair.it->device_from.says != "cuda";
  if (chose && !brought_by_a_hook(*pair.other)) return std::nullopt;
  auto code = without_move(line.source);
  if (code && is_reference(*code)) code.reset();  // `model.to(device)` alone
  return Cause{kModuleSplit, Confidence::medium,
               fmt::format("{} was on {}, where {} still brings what its module is given, until {} took it to {}. "
                           "It meets {}.",
                           pair.it->name, pair.it->moved.from,
                           brought_by_a_hook(*pair.other) ? "a hook" : "the model's own code", at(&line),
                           pair.it->device, with_place(*pair.other)),
               repair_of(line, code.value_or(""))};
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

// Is all that the line calls PyTorch's, or a method of a tensor? Then no part of a model has made what it gives.
bool calls_no_part(std::string_view line) {
  const Scan scan(line);
  for (size_t at = 0; (at = line.find('(', at)) != line.npos; ++at) {
    size_t begin = at;
    while (begin > 0 && (word_char(line[begin - 1]) || line[begin - 1] == '.')) --begin;
    if (!scan.code[at] || begin == at) continue;
    const std::string_view called = line.substr(begin, at - begin);
    if (called.find('.') == called.npos || variable_of(called) == "self") return false;
  }
  return true;
}

bool computed_by_no_part(const Operand& it) {
  return std::all_of(it.lineage.begin(), it.lineage.end(),
                     [](const finding::Step& each) { return calls_no_part(each.line.source); }) &&
         std::all_of(it.computed_from.begin(), it.computed_from.end(), computed_by_no_part);
}

// The model was given what lies on the CPU, and no part of it has made this from that. A part that has followed its
// input there, as one that moves itself does, spreads the model and is not why.
std::optional<Cause> follows_the_input(const Evidence& evidence, const Operand& it, const Operand& state) {
  if (!it.on_cpu() || state.on_cpu() || !state.hook.empty() || !state.device_map.empty() || !computed_by_no_part(it))
    return std::nullopt;
  const auto& running = evidence.refusal.modules;
  const auto model = std::ranges::find(running, state.root_class, &finding::RunningModule::type);
  if (model == running.end()) return std::nullopt;
  size_t caller = model->frame + 1;
  while (caller < evidence.stack.size() && !evidence.stack[caller].project) ++caller;
  if (caller >= evidence.stack.size()) return std::nullopt;
  const Frame& here = evidence.stack[caller];
  const std::string_view device = expression_of(evidence, caller, state.device);
  std::vector<std::string_view> given;
  for (const finding::Mention& each : evidence.refusal.mentions) {
    if (each.frame != caller) continue;
    if (each.device != it.device) return std::nullopt;
    given.push_back(each.name);
  }
  if (given.size() != 1 || device.empty()) return std::nullopt;
  auto code = replace_read(here.source, given[0], fmt::format("{}.to({})", given[0], device));
  if (!code) return std::nullopt;
  return Cause{"input-not-moved", Confidence::medium,
               fmt::format("{} is given to {} on the CPU at {}: {} comes from that, and meets {}.", given[0],
                           of_model(state), at(&here), it.name, with_place(state)),
               repair_of(here, std::move(*code))};
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
  if (auto cause = follows_the_input(evidence, *pair.it, *pair.other)) return cause;
  const bool of_a_file = line_that_read(*pair.other) && !pair.other->moved.known();  // nobody has spread that
  const bool of_parts = pair.other->is_state() || !pair.other->view_of.empty();
  const bool proven = (is_spread == true && of_parts && !of_a_file) || sent;
  const Confidence confidence = proven ? Confidence::high : Confidence::medium;
  if (pair.other->on_cpu()) {
    if (auto cause = registered_after_the_move(evidence, *pair.it, *pair.other)) return cause;
    if (!pair.other->moved.known() && evidence.made_inside_model(*pair.other))
      return Cause{"created-without-device", Confidence::medium,
                   fmt::format("{} was made by {} while it runs, on the CPU, and meets {}.", with_place(*pair.other),
                               of_model(*pair.other), with_place(*pair.it)),
                   std::nullopt};
    return Cause{kModuleSplit, confidence,
                 fmt::format("{} was computed by {} on {}, and {} of the same model was left on the CPU.",
                             pair.it->name, of_model(*pair.other), pair.it->device, with_place(*pair.other)) +
                     by_the_map(*pair.other),
                 pair.other->is_state() ? std::nullopt : move_part_where_called(evidence)};
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
  if (auto cause = taken_from_its_inputs(evidence)) return cause;
  return computed_apart(evidence);
}

}  // namespace devtrace::report::verdict::rules
