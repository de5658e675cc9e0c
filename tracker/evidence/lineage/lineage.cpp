#include "tracker/evidence/lineage/lineage.h"

#include <algorithm>

#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "tracker/evidence/lineage/default_arguments.h"
#include "tracker/evidence/lineage/lines_behind.h"
#include "tracker/memory/provenance.h"

namespace devtrace::evidence {
namespace {

using Stack = std::vector<stacks::PythonFrame>;

// The frame that called the class.
std::optional<size_t> constructor_call(const Stack& made, const std::string& type, const SourceText& source) {
  const std::string constructor = type + ".__init__";
  for (size_t frame = made.size(); frame-- > 0;)
    if (made[frame].function == constructor || made[frame].function.ends_with("." + constructor))
      return innermost_project(made, source, frame + 1);
  return std::nullopt;
}

// The line that constructed the outermost module which has it and lies on one device as a whole: what could have been
// put elsewhere. And the class of that.
std::pair<std::optional<size_t>, std::string> constructor_of(const Operand& operand, const Stack& made,
                                                             const SourceText& source) {
  std::vector<std::string> types;
  if (operand.root_devices.size() < 2) types.push_back(operand.root_class);
  for (const finding::Chain& chain : operand.held_by)
    for (const finding::Holder& holder : chain.holders)
      if (holder.is_module() && holder.devices.size() == 1) types.push_back(holder.type);
  types.push_back(operand.module_class);
  for (const std::string& type : types)
    if (const auto line = type.empty() ? std::nullopt : constructor_call(made, type, source)) return {line, type};
  return {};
}

// `model` for the parameter `model.layer.weight` of a whole model; empty for another name.
std::string module_of(const Operand& state, const std::string& name) {
  const std::string path = "." + state.module_path;
  return state.root_devices.size() == 1 && name.ends_with(path) ? name.substr(0, name.size() - path.size())
                                                                : std::string();
}

std::string variable_of(const std::string& name) {
  return name.substr(0, name.find_first_of(".[("));
}

// Is the line `return f(…)`, which gives its caller nothing but what it has computed? `made`: the tensor was made in
// it.
bool hands_on(const stacks::PythonFrame& frame, const SourceText& source, bool made) {
  constexpr std::string_view kReturn = "return ";
  if (!is_project_file(frame.file, source.standard_library)) return false;
  const std::string text = source.lines(frame.file, frame.line);
  const std::string_view line = trimmed(text);
  if (!line.starts_with(kReturn) || std::string_view("([{").find(line[kReturn.size()]) != line.npos) return false;
  const Scan scan(line);
  size_t last = line.size() - 1;
  while (last > 0 && (!scan.code[last] || line[last] == ' ')) --last;  // a comment
  for (size_t at = kReturn.size(); at < last; ++at)
    if (scan.code[at] && scan.depth[at] == 0 && line[at] == ',') return false;
  return (made || line[last] == ')') && scan.balanced;
}

// The line that moves what is called so and keeps nothing of it, between one that gave it its value and another line.
std::optional<int> discarded_between(const FunctionText& function, const std::string& name, int above, int below) {
  std::optional<int> found;
  for (const int line : function.discarded_moves(name))
    if (line > above && line < below) found = line;
  const std::string variable = variable_of(name);
  const auto replaced = [&](int line) {
    return line > found && line < below && !function.computes_from_itself(line, variable);
  };
  const std::vector<int>& bound = function.bindings(variable);
  return found && std::none_of(bound.begin(), bound.end(), replaced) ? found : std::nullopt;
}

bool name_of_constructor(const std::string& function) {
  return function == "__init__" || function.ends_with(".__init__");
}

struct DiscardedMove {
  stacks::PythonFrame line;
  std::string branch;  // that it is in, if it is not known to have been taken

  // Of a branch that was not taken there is no move.
  static std::optional<DiscardedMove> in(const KnownNames& names, std::optional<size_t> frame, stacks::PythonFrame line,
                                         const std::vector<std::string>& branches) {
    DiscardedMove move{std::move(line), {}};
    for (const std::string& branch : branches) {
      const auto taken = names.taken(frame, branch);
      if (taken == false) return std::nullopt;
      if (!taken && move.branch.empty()) move.branch = branch;
    }
    return move;
  }
};

// A line that means to move the tensor and does not: of a function that runs and has it, or of one that made it.
std::optional<DiscardedMove> discarded_move(const Operand& operand, const KnownNames& names, const Stack& made,
                                            const std::vector<Frame>& frames, const SourceText& source) {
  std::vector<finding::Name> known(operand.names.begin(), operand.names.end());
  if (!operand.has_role_of_state())
    for (finding::Name& name : names.variables_of(operand.storage, known)) known.push_back(std::move(name));
  for (const finding::Name& name : known) {
    const Frame& frame = frames[name.frame];
    const FunctionText* function = names.function_of(frame.file, frame.function, frame.region.line);
    if (!frame.project || !function) continue;
    // Of state a variable alone: `self.layer.to(device)` moves a module itself.
    if (operand.has_role_of_state() && !std::ranges::all_of(name.name, word_char)) continue;
    // `batch.to(device)` of a class that gives another one, for `batch["ids"]`.
    for (std::string each = name.name; !each.empty() && each != "self"; each.resize(holder_of(each).size()))
      if (const auto line = discarded_between(*function, each, 0, frame.region.line))
        return DiscardedMove::in(names, name.frame, {frame.file, frame.function, *line},
                                 function->branches_around(*line, frame.region.line));
  }
  if (operand.has_role_of_state()) return std::nullopt;
  const auto live = live_line(made, frames);
  const size_t gone = live ? made.size() - (frames.size() - live->frame) : made.size();
  for (size_t at = 0; at < gone; ++at) {
    if (at > 0 && name_of_constructor(made[at - 1].function)) break;  // the line gives the object a name
    const FunctionText* function = names.function_of(made[at].file, made[at].function, made[at].line);
    if (!function || !is_project_file(made[at].file, source.standard_library)) continue;
    const auto has = [&](const auto& each) {
      return std::find(each.second.begin(), each.second.end(), made[at].line) != each.second.end();
    };
    const auto variable = std::find_if(function->bound.begin(), function->bound.end(), has);
    if (std::count_if(function->bound.begin(), function->bound.end(), has) != 1) continue;  // which of them?
    if (const auto line = discarded_between(*function, variable->first, made[at].line, function->last + 1))
      return DiscardedMove::in(names, std::nullopt, {made[at].file, made[at].function, *line},
                               function->branches_around(*line, made[at].line));
  }
  return std::nullopt;
}

bool says_a_move(std::string_view line) {
  constexpr std::string_view kMoves[] = {".to(", ".cuda(", ".cpu(", "device="};
  return std::ranges::any_of(kMoves, [&](std::string_view each) { return line.find(each) != line.npos; });
}

// `x = fetch()` above `x = split(x)`, in a function that still runs: where that call brought to the device what the
// tensor was computed from, and what is gone. The move's stack, and the program's frame of it.
std::optional<std::pair<Stack, size_t>> brought_above(const python::Api& api, const memory::provenance::Origin& made,
                                                      const LiveLine& live, const KnownNames& names,
                                                      const std::vector<Frame>& frames, const SourceText& source) {
  constexpr size_t kMostMoves = 64;  // whose stacks are looked at
  const Frame& here = frames[live.frame];
  if (!here.project) return std::nullopt;
  const std::vector<memory::provenance::Origin> moves = memory::provenance::recent_moves(made.thread, made.device);
  std::vector<ReadLine> behind;  // parsed for a move in the running call: most have none
  for (size_t i = 0; i < std::min(moves.size(), kMostMoves); ++i) {
    if (moves[i].time > made.time) continue;
    Stack stack = stacks::resolve(moves[i].stack);
    // A module's own state, which goes where `module.to()` says.
    if (std::ranges::any_of(stack, [](const auto& each) { return each.function == "Module._apply"; })) continue;
    const auto then = live_line(stack, frames);
    if (then && then->frame > live.frame) break;  // before this call of the function
    if (!then || then->frame != live.frame) continue;
    if (behind.empty()) {
      const FunctionText* function = names.function_of(here.file, here.function, live.line);
      behind = lines_behind(api, function, source, here.file, live.line);
    }
    const bool above =
        std::any_of(behind.begin() + 1, behind.end(), [&](const ReadLine& each) { return each.number == then->line; });
    const auto own = above ? innermost_project(stack, source) : std::nullopt;
    // An index, say, goes there by itself.
    if (own && says_a_move(source.lines(stack[*own].file, stack[*own].line))) return std::pair(std::move(stack), *own);
  }
  return std::nullopt;
}

bool joins_a_list(std::string_view line) {
  constexpr std::string_view kJoins[] = {"torch.stack(", "torch.cat("};
  return std::ranges::any_of(kJoins, [&](std::string_view each) { return line.find(each) != line.npos; });
}

// `torch.stack(kept)` in a function that has ended: where its call had brought to the device before what that may have
// been. The latest move's stack, and the program's frame of it.
std::optional<std::pair<Stack, size_t>> brought_in_its_call(const memory::provenance::Origin& made, const Stack& making,
                                                            const SourceText& source) {
  constexpr size_t kMostMoves = 64;  // whose stacks are looked at
  auto own = innermost_project(making, source);
  while (own && *own + 1 < making.size() && making[*own].function.ends_with('>')) ++*own;  // a comprehension
  if (!own || making[*own].function == "<module>" || !joins_a_list(source.lines(making[*own].file, making[*own].line)))
    return std::nullopt;
  const size_t depth = making.size() - *own;
  const std::vector<memory::provenance::Origin> moves = memory::provenance::recent_moves(made.thread, made.device);
  for (size_t i = 0; i < std::min(moves.size(), kMostMoves); ++i) {
    if (moves[i].time > made.time) continue;
    Stack stack = stacks::resolve(moves[i].stack);
    if (stack.size() < depth) continue;
    const auto& there = stack[stack.size() - depth];
    const bool above =
        there.file == making[*own].file && there.function == making[*own].function && there.line < making[*own].line;
    const bool called = std::equal(
        stack.end() - static_cast<ptrdiff_t>(depth) + 1, stack.end(), making.begin() + static_cast<ptrdiff_t>(*own) + 1,
        [](const auto& a, const auto& b) { return a.file == b.file && a.function == b.function && a.line == b.line; });
    const auto line = above && called ? innermost_project(stack, source) : std::nullopt;
    if (line && says_a_move(source.lines(stack[*line].file, stack[*line].line)))
      return std::pair(std::move(stack), *line);
  }
  return std::nullopt;
}

}  // namespace

finding::List<finding::Step> lineage(const python::Api& api, const Operand& operand, const KnownNames& names,
                                     const std::vector<Frame>& frames, const SourceText& source) {
  finding::List<finding::Step> steps;
  const auto step = [&](const char* what, const stacks::PythonFrame& frame,
                        finding::List<finding::DeviceExpression> devices) -> finding::Step& {
    finding::Step& out = steps.emplace_back();
    out.what = what;
    out.line = python_stack({frame}, source)[0];
    out.line.around = {};
    out.devices = std::move(devices);
    return out;
  };
  const auto devices_of_line = [&](const stacks::PythonFrame& code) {
    for (size_t frame = 0; frame < frames.size(); ++frame)
      if (frames[frame].file == code.file && frames[frame].function == code.function)
        return names.devices_in(frame, code.line);
    return names.devices_of_object(code, {});
  };
  const auto said_by_argument = [&](const Stack& stack, size_t frame, uint64_t time) {
    const auto said = device_argument(api, stack, frame, names, source);
    if (!said || !is_project_file(stack[said->frame].file, source.standard_library) ||
        says_another(*said, stack, time, operand.device, names))
      return false;
    finding::Step& out =
        step(said->left_out ? "defaulted" : "given", stack[said->frame], names.devices_at(stack, said->frame, time));
    out.call = said->call;
    out.parameter = said->parameter;
    out.otherwise = said->value;
    return true;
  };
  const auto add = [&](const char* what, const Stack& stack, std::optional<size_t> frame, uint64_t time) {
    if (frame && is_project_file(stack[*frame].file, source.standard_library))
      step(what, stack[*frame], names.devices_at(stack, *frame, time));
  };
  if (operand.generator) {
    // The program has made it for a sampler or a loader, or a loader has, for its sampler. Or it is the library's own,
    // which knows nothing of a default device that the program has chosen.
    const bool within = !frames.empty() && !frames[0].project;
    const std::string loader = "DataLoader", sampler = "RandomSampler";
    std::string user = within ? frames[0].function.substr(0, frames[0].function.find('.')) : std::string();
    if (user.starts_with('_')) user = loader;  // its iterator
    const auto made = within ? names.line_that_made_generator(user) : std::nullopt;
    std::optional<stacks::PythonFrame> line, chosen;
    const bool own = within && !made && (user == loader || user == sampler) &&
                     frames[0].file.find("/torch/utils/data/") != std::string::npos;
    for (size_t frame = 0; frame < frames.size() && own && !line; ++frame)
      if (frames[frame].project) line = names.line_that_names(frame, loader);
    const auto says = [&](const std::string& text) {
      return line && source.lines(line->file, line->line).find(text) != std::string::npos;
    };
    if (own && !says(loader + "("))
      if (auto only = names.only_construction_of(loader)) line = std::move(only);
    // A sampler that the program has given it draws by itself.
    std::string constructed = loader;
    if (own && (!line || says("sampler=")))
      line = user == sampler ? names.only_construction_of(constructed = sampler) : std::nullopt;
    for (const char* const choice : {"torch.set_default_device(", "torch.set_default_tensor_type("})
      if (within && !made && !line && !chosen) chosen = names.only_line_with(choice);
    if (made) step("made", *made, {});
    if (line) step("constructed", *line, {}).call = constructed;
    if (chosen) step("chosen", *chosen, {});
  }
  // Nothing is allocated for it: of what chooses the meta device a program has one line.
  constexpr const char* kMapped[] = {"device_map=\"auto\"", "device_map='auto'", "device_map=\"balanced\""};
  constexpr const char* kWithoutMemory[] = {"low_cpu_mem_usage=True", "init_empty_weights(", "torch.device(\"meta\")",
                                            "torch.device('meta')",   "device=\"meta\"",     "device='meta'",
                                            "_device(\"meta\")",      "_device('meta')"};
  std::optional<stacks::PythonFrame> without_memory;
  if (operand.device == "meta" && operand.has_role_of_state()) {
    for (const char* const choice : kMapped)
      if (!without_memory && !operand.device_map.empty()) without_memory = names.only_line_with(choice);
    for (const char* const choice : kWithoutMemory)
      if (!without_memory) without_memory = names.only_line_with(choice);
  }
  if (without_memory) step("chosen", *without_memory, {});
  Stack first, placed;  // where it was made, and where it was brought to its device
  const auto block = operand.storage ? memory::provenance::block_at(operand.storage) : std::nullopt;
  if (block && !(block->existed && !block->moved_from.known())) {
    const bool moved = block->moved_from.known();
    const Stack made = stacks::resolve(moved ? block->created.stack : block->allocated.stack);
    const uint64_t began = moved ? block->created.time : block->allocated.time, came = block->allocated.time;
    const Stack last = moved ? stacks::resolve(block->allocated.stack) : made;
    const auto line = innermost_project(last, source);
    const auto [constructed, type] = operand.has_role_of_state() ? constructor_of(operand, made, source)
                                                                 : std::pair<std::optional<size_t>, std::string>();
    const bool said = line && !constructed && said_by_argument(last, *line, came);
    if (line && !constructed && !said && !operand.has_role_of_state())
      if (const auto left_out = constructed_without_device(api, last[*line], operand.device, names, source)) {
        finding::Step& out = step("defaulted", left_out->line, devices_of_line(left_out->line));
        out.call = left_out->call;
        out.parameter = left_out->parameter;
        out.otherwise = left_out->value;
      }
    const auto making = innermost_project(made, source);
    if (making && !moved && !operand.has_role_of_state())
      if (const auto appended = names.line_that_appends(made[*making])) {
        Stack earlier = made;
        earlier[*making].line = *appended;
        add("appended", earlier, making, began);
      }
    add("made", made, making, began);
    if (constructed && is_project_file(made[*constructed].file, source.standard_library)) {
      if (!moved && !(making && said_by_argument(made, *making, began))) said_by_argument(made, *constructed, began);
      auto devices = names.devices_at(made, *constructed, began);
      if (devices.empty()) devices = names.devices_of_given(made[*constructed], made[*constructed - 1], began);
      step("constructed", made[*constructed], std::move(devices)).call = type;
    }
    if (moved) add("moved", last, line, came);
    first = made;
    placed = last;
    const auto live = live_line(last, frames);
    if (live && !moved && !operand.has_role_of_state())
      if (const auto brought = brought_above(api, block->allocated, *live, names, frames, source))
        add("brought", brought->first, brought->second, came);
    if (operand.on_cpu() && !moved && !operand.has_role_of_state())
      if (const auto brought = brought_in_its_call(block->allocated, made, source))
        add("brought", brought->first, brought->second, came);
    const auto from = operand.has_role_of_state() ? constructed : line;
    if (live && from && !(operand.has_role_of_state() && moved)) {
      const size_t returned = last.size() - (frames.size() - live->frame);
      for (size_t at = *from + 1; at < returned && hands_on(last[at - 1], source, line && at == *line + 1); ++at)
        add("returned", last, at, came);
      if (returned > *from && live->line != frames[live->frame].region.line) add("returned", last, returned, came);
    }
  }
  // Memory of NumPy's: nobody has seen who made it.
  if (!block && operand.has_role_of_state() && !operand.module_class.empty()) {
    stacks::PythonFrame line;
    auto devices = names.devices_of_stored_state(operand.module_class,
                                                 operand.module_path.substr(operand.module_path.rfind('.') + 1), line);
    if (line.line > 0 && is_project_file(line.file, source.standard_library)) step("made", line, std::move(devices));
  }
  if (const auto move = discarded_move(operand, names, placed, frames, source))
    step("discarded", move->line, {}).branch = move->branch;
  for (const finding::Name& name : operand.names) {
    const std::string known_as = operand.has_role_of_state() ? module_of(operand, name.name) : name.name;
    const Frame& frame = frames[name.frame];
    const auto line = known_as.empty() || !frame.project ? std::nullopt : names.line_that_binds(name.frame, known_as);
    if (!line) continue;
    const bool known = std::any_of(steps.begin(), steps.end(), [&](const finding::Step& each) {
      return each.line.line == *line && each.line.file == frame.file;
    });
    if (!known) step("assigned", {frame.file, frame.function, *line}, names.devices_in(name.frame, *line));
  }
  // A whole model that was left on the CPU: the line in which an object keeps it.
  const bool left = operand.has_role_of_state() && operand.on_cpu() && operand.root_devices.size() == 1;
  for (const finding::Chain& chain : operand.held_by)
    for (size_t i = 0; left && i + 1 < chain.holders.size(); ++i) {
      const finding::Holder& object = chain.holders[i];
      const std::string method = object.bound.function.empty() ? "__init__" : object.bound.function;
      const stacks::PythonFrame code{object.bound.file, object.type + "." + method,
                                     static_cast<int>(object.bound.line)};
      const bool keeps = !object.is_module() && code.line > 0 && chain.holders[i + 1].is_module();
      if (keeps && is_project_file(code.file, source.standard_library))
        if (auto devices = names.devices_of_object(code, first); !devices.empty())
          step("assigned", code, std::move(devices));
    }
  return steps;
}

}  // namespace devtrace::evidence
