// The line that decided on an operand's device, deciding otherwise: where it was made, moved or constructed, or where a
// function returned it.
#include <algorithm>

#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

using finding::Step;

// An operand, and what it was computed from, and so on; the first made comes first.
void add_sources(const Operand& it, Operands& out) {
  if (!computed_where_its_module_lies(it))
    for (const Operand* source : sources_of(it)) add_sources(*source, out);
  out.push_back(&it);
}

// Did it pass the line, or all that it was computed from? A change of one of several would leave the others.
bool passed(const Operand& it, const Frame& line) {
  if (std::any_of(it.lineage.begin(), it.lineage.end(), [&](const Step& step) { return step.line.same_line(line); }))
    return true;
  const Operands sources = sources_of(it);
  return !sources.empty() &&
         std::all_of(sources.begin(), sources.end(), [&](const Operand* source) { return passed(*source, line); });
}

// Of `x - y`, beside `x + y`: is it the same line's, and has what it was computed from passed the line as the other
// one's source? A tensor is told as the source of one operand alone.
bool passed_with(const Operand& it, const Operand& operand, const Frame& line) {
  const Operands sources = sources_of(operand);
  return !it.expression.empty() && it.computed_from.empty() &&
         std::any_of(sources.begin(), sources.end(), [&](const Operand* source) {
           return reads(it.expression, source->name_in(0)) > 0 && passed(*source, line);
         });
}

// Did all operands of its device pass the line?
bool all_passed(const Evidence& evidence, const Operand& operand, const Frame& line) {
  return std::all_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& each) {
    return each.device != operand.device || passed(each, line) || passed_with(each, operand, line);
  });
}

// `scale.device`, where the function made `scale` in a line further up of the same call, and that lies there.
std::string made_beside(const Evidence& evidence, const Operand& it, const Step& step, std::string_view device) {
  const Stack& own = it.created.stack;
  if (step.what != "made" || own.empty() || !step.line.same_line(own.front())) return {};
  for (const Operand& other : evidence.operands) {
    const Stack& made = other.created.stack;
    if (other.device != device || other.moved.known() || made.size() != own.size() || !made[0].same_function(own[0]) ||
        made[0].line >= own[0].line ||
        !std::equal(made.begin() + 1, made.end(), own.begin() + 1,
                    [](const Frame& a, const Frame& b) { return a.same_line(b); }))
      continue;
    const auto name = assigned_name(made[0].source);
    if (name && is_identifier(*name)) return *name + ".device";
  }
  return {};
}

// What a layer of PyTorch's gives lies where the layer does.
bool given_by_a_layer(const Operand& it) {
  const Stack& made = it.created.stack;
  return !it.is_of_state() && !made.empty() && made.front().file.find("/torch/nn/modules/") != std::string::npos &&
         !in_a_constructor(made);
}

// A function that was told no device has chosen one.
bool was_given_a_default(const Operand& it) {
  return std::any_of(it.lineage.begin(), it.lineage.end(), [](const Step& each) { return each.what == "defaulted"; });
}

// Left where the default is, or brought to the device that was current: by no choice of anybody's.
bool undecided(const Evidence& evidence, const Operand& it) {
  const Event* placed = it.placed();
  if (was_given_a_default(it)) return true;
  if (placed_when_constructed(it)) return false;
  if (current_by_name(it) || given_the_current_device(it)) return true;
  // What a module computed lies where its state does.
  const bool by_state = evidence.has_state_on(it.device) && !it.is_of_state() && made_by_a_module(it) &&
                        placed->line() && !makes_tensor(placed->line()->source);
  if (it.on_cpu()) return !it.moved.known() && !given_by_a_layer(it) && !by_state;
  if (brought_by_no_word(evidence, it)) return true;
  return placed && placed->line() && says_current_device(placed->line()->source);
}

// Of a model's state in a part that was left as a whole: was something of another part left there, too? That was
// constructed elsewhere than the rest of it, and the edit of one construction is not enough.
bool is_one_of_parts_left(const Evidence& evidence, const Operand& it) {
  if (!it.is_state() || it.root_devices.size() < 2) return false;
  const auto is_own = [&](const finding::Part& part) { return it.module_path.starts_with(part.name + "."); };
  const auto spread = [](const finding::Part& part) { return part.devices.size() > 1; };
  const auto left = [&](const finding::Part& part) {
    return spread(part) && std::find(part.devices.begin(), part.devices.end(), it.device) != part.devices.end();
  };
  const auto& running = evidence.refusal.modules;
  return std::any_of(running.begin(), running.end(), [&](const finding::RunningModule& each) {
    const auto own = std::find_if(each.parts.begin(), each.parts.end(), is_own);
    return each.type == it.root_class && own != each.parts.end() && !spread(*own) &&
           std::any_of(each.parts.begin(), each.parts.end(), left);
  });
}

// Does another line move more of what was left than this one could? A constructor's, where a line in it makes one
// tensor of several; the one that gives a whole model its name, where this one constructs a part of it.
bool moves_less(const Operand& it, const Step& step, std::string_view wanted) {
  const bool tensor = step.what == "made", part = step.what == "constructed" && step.call != it.root_class;
  if (!it.is_state() || !(tensor || (part && it.is_of_whole_model()))) return false;
  return std::any_of(it.lineage.begin(), it.lineage.end(), [&](const Step& other) {
    return other.what == (tensor ? "constructed" : "assigned") && !expression_of(other, wanted).empty();
  });
}

// Does a line below in the same function bring it elsewhere again: `inputs = {name: value.to(model.device) for …}`?
bool is_moved_again(const Operand& it, const Step& step) {
  return std::any_of(it.lineage.begin(), it.lineage.end(), [&](const Step& later) {
    return later.what == "assigned" && later.line.same_function(step.line) && later.line.line > step.line.line &&
           redirect_move(later.line.source, "cpu");
  });
}

// The line that a fix changes, as the operand passed it.
struct OnTheWay {
  Fix fix;
  const Frame* line;
};

// The first line that it passed, for which `enough` holds, and that can say the wanted device.
template <typename Enough>
std::optional<OnTheWay> fix_on_the_way(const Evidence& evidence, const Operand& it, std::string_view wanted,
                                       const Enough& enough) {
  if (!undecided(evidence, it)) return std::nullopt;
  for (const Step& step : it.lineage) {
    std::string device(expression_of(step, wanted));
    if (device.empty()) device = made_beside(evidence, it, step, wanted);
    if (device.empty() || step.line.source.empty() || !enough(step.line)) continue;
    // A worker of a loader's may use no GPU; and where one of what a line made was moved later, the other is moved,
    // too.
    if (step.what == "made" && (is_loaded_data(it) || evidence.left_of_its_line(it))) continue;
    if (step.what == "constructed" && is_one_of_parts_left(evidence, it)) continue;
    if (moves_less(it, step, wanted) || is_moved_again(it, step)) continue;
    // Behind the line that made it a move gives a copy, and what is written to that is lost.
    const bool alias = it.role != "variable" || is_reference(value_in(step.line.source));
    if (step.what == "assigned" && alias && is_written_through(evidence, it)) continue;
    if (auto code = edit_of_step(evidence, step, it, device))
      return OnTheWay{repair_of(step.line, std::move(*code)), &step.line};
  }
  return std::nullopt;
}

bool any_line(const Frame&) {
  return true;
}

std::optional<Fix> joined(std::vector<OnTheWay> edits) {
  if (edits.empty()) return std::nullopt;
  Fix fix = std::move(edits.front().fix);
  for (size_t i = 1; i < edits.size(); ++i)
    fix.also.push_back({std::move(edits[i].fix.file), edits[i].fix.line, std::move(edits[i].fix.code)});
  return fix;
}

bool is_covered(const Operand& it, const std::vector<OnTheWay>& edits) {
  return std::ranges::any_of(edits, [&](const OnTheWay& each) { return passed(it, *each.line); });
}

// Of an operand that was computed from several: each in a line of its own. All other operands there have passed these.
std::optional<Fix> fix_of_each_source(const Evidence& evidence, const Operand& operand, std::string_view wanted) {
  constexpr size_t kMost = 4;
  const Operands sources = sources_of(operand);
  if (sources.size() < 2 || sources.size() > kMost) return std::nullopt;
  std::vector<OnTheWay> edits;
  for (const Operand* source : sources) {
    if (is_covered(*source, edits)) continue;
    auto one = fix_on_the_way(evidence, *source, wanted, any_line);
    if (!one) return std::nullopt;
    edits.push_back(std::move(*one));
  }
  for (const Operand& each : evidence.operands)
    if (&each != &operand && each.device == operand.device && !is_covered(each, edits)) return std::nullopt;
  return joined(std::move(edits));
}

// Adds what brings it there: of what a module computed, what that was given; else itself, or all that it was computed
// from. False: one of these cannot be brought there.
bool add_edits(const Evidence& evidence, const Operand& it, std::string_view wanted, std::vector<OnTheWay>& edits) {
  if (is_covered(it, edits)) return true;
  const bool by_module = !it.is_of_state() && made_by_a_module(it);
  if (!by_module)
    if (auto one = fix_on_the_way(evidence, it, wanted, any_line)) {
      edits.push_back(std::move(*one));
      return true;
    }
  const Operands sources = sources_of(it);
  return !sources.empty() &&
         std::ranges::all_of(sources, [&](const Operand* each) { return add_edits(evidence, *each, wanted, edits); });
}

// A model that nobody moved and what it is given, beside one operand on the GPU: each in a line of its own.
std::optional<Fix> fix_of_model_and_input(const Evidence& evidence) {
  const auto model = [](const Operand& it) {
    return it.on_cpu() && it.is_state() && it.is_of_whole_model() && !it.moved.known();
  };
  const auto pair = evidence.pair(model, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  std::vector<OnTheWay> edits;
  const std::string& wanted = pair.other->device;
  if (!add_edits(evidence, *pair.it, wanted, edits)) return std::nullopt;
  for (const Operand& each : evidence.operands)
    if (each.device != wanted && !add_edits(evidence, each, wanted, edits)) return std::nullopt;
  constexpr size_t kMost = 3;
  return edits.size() > kMost ? std::nullopt : joined(std::move(edits));
}

std::optional<Fix> fix_towards(const Evidence& evidence, const Operand& operand, const Operand& other) {
  if (operand.device == other.device || operand.device.empty() || operand.generator ||
      !operand.moved_away.device.empty())
    return std::nullopt;
  const auto enough = [&](const Frame& line) { return all_passed(evidence, operand, line); };
  Operands sources;
  add_sources(operand, sources);
  for (const Operand* it : sources)
    if (auto found = fix_on_the_way(evidence, *it, other.device, enough)) return std::move(found->fix);
  return fix_of_each_source(evidence, operand, other.device);
}

}  // namespace

std::optional<Fix> fix_at_origin(const Evidence& evidence) {
  if (evidence.kind != "refused-op") return std::nullopt;
  for (const Operand& operand : evidence.operands)
    for (const Operand& other : evidence.operands)
      // What nobody has said a device for may as well go to the CPU, if all else is there.
      if (was_given_a_default(operand))
        if (auto fix = fix_towards(evidence, operand, other)) return fix;
  for (const Operand& operand : evidence.operands)
    for (const Operand& other : evidence.operands)
      if (!other.on_cpu())
        if (auto fix = fix_towards(evidence, operand, other)) return fix;
  return fix_of_model_and_input(evidence);
}

std::optional<Fix> fix_at_origin_of(const Evidence& evidence, const Operand& operand, std::string_view wanted) {
  if (!undecided(evidence, operand)) return std::nullopt;
  for (const Step& step : operand.lineage)
    if (auto code = edit_of_step(evidence, step, operand, expression_of(step, wanted)))
      return repair_of(step.line, std::move(*code));
  return std::nullopt;
}

// What a sibling's line should say, where the fix stands in the line of that step of the operand's.
static std::optional<finding::Edit> edit_alike(const Evidence& evidence, const Fix& fix, const Step& fixed,
                                               const Operand& sibling, std::string_view device) {
  const bool registers = fix.code.starts_with("self.register_buffer(");
  for (const Step& step : sibling.lineage) {
    const Frame& line = step.line;
    const bool known = line.line == fix.line || std::any_of(fix.also.begin(), fix.also.end(),
                                                            [&](const auto& each) { return each.line == line.line; });
    if (step.what != fixed.what || !line.same_function(fixed.line) || known) continue;
    std::optional<std::string> code;
    if (!registers)
      code = edit_of_step(evidence, step, sibling, expression_of(step, device));
    else if (auto buffer = register_buffer(line, sibling))
      code = std::move(buffer->code);
    if (code) return finding::Edit{line.file, line.line, std::move(*code)};
  }
  return std::nullopt;
}

// What a constructor keeps besides, where the fix registers what it keeps.
static void register_siblings(const Operand& operand, Fix& fix) {
  for (const Operand& sibling : operand.siblings)
    for (const finding::Chain& chain : sibling.held_by) {
      const Frame& bound = chain.holders[0].bound;
      if (bound.file != fix.file || bound.line == fix.line) continue;
      if (auto buffer = register_buffer(bound, sibling))
        fix.also.push_back({bound.file, bound.line, std::move(buffer->code)});
    }
}

// Does the fix, or what goes with it, change a line that it passed?
static bool is_changed(const Operand& it, const Fix& fix) {
  return std::ranges::any_of(it.lineage, [&](const Step& step) {
    const auto here = [&](const auto& edit) { return edit.file == step.line.file && edit.line == step.line.line; };
    return here(fix) || std::ranges::any_of(fix.also, here);
  });
}

// `torch.meshgrid(rows, columns)`, of which the fix moves one: the others, each in a line of its own.
static void add_other_sources(const Evidence& evidence, const Operand& computed, std::string_view wanted, Fix& fix) {
  const Operands sources = sources_of(computed);
  if (std::ranges::none_of(sources, [&](const Operand* each) { return is_changed(*each, fix); })) return;
  for (const Operand* each : sources)
    if (!is_changed(*each, fix))
      if (auto one = fix_on_the_way(evidence, *each, wanted, any_line))
        fix.also.push_back({std::move(one->fix.file), one->fix.line, std::move(one->fix.code)});
}

void add_siblings(const Evidence& evidence, Fix& fix) {
  if (fix.repairs != Repairs::cause || fix.code.empty()) return;
  for (const Operand& operand : evidence.operands) {
    if (fix.code.starts_with("self.register_buffer(")) register_siblings(operand, fix);
    const auto other = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                    [&](const Operand& each) { return each.device != operand.device; });
    if (other == evidence.operands.end()) continue;
    Operands sources;
    add_sources(operand, sources);
    for (const Operand* it : sources) {
      add_other_sources(evidence, *it, other->device, fix);
      const auto step = std::find_if(it->lineage.begin(), it->lineage.end(), [&](const Step& each) {
        return each.line.file == fix.file && each.line.line == fix.line;
      });
      if (step == it->lineage.end()) continue;
      for (const Operand& sibling : it->siblings)
        if (auto code = edit_alike(evidence, fix, *step, sibling, other->device)) fix.also.push_back(std::move(*code));
    }
  }
}

std::optional<Fix> redirect_elements(const Operand& it, const Operand& other) {
  for (const Step& step : it.lineage) {
    const std::string_view source = step.line.source, device = expression_of(step, other.device);
    const bool each = value_in(source).starts_with('[') && source.find(" for ") != source.npos;
    if (step.what != "returned" || !each || device.empty()) continue;
    if (auto code = redirect_move(source, device)) return repair_of(step.line, std::move(*code));
  }
  return std::nullopt;
}

std::optional<Fix> say_where_the_other_is(const Step& step, const Operand& it, const Operand& other) {
  const std::string_view said = expression_of(step, it.device), wanted = expression_of(step, other.device);
  if (said.empty() || wanted.empty()) return std::nullopt;
  auto code = replace_read(step.line.source, said, wanted);
  return code ? std::optional(repair_of(step.line, std::move(*code))) : std::nullopt;
}

std::optional<Fix> say_other_words(const Evidence& evidence) {
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands)
      for (const Step& step : it.lineage) {
        if (it.device == other.device || it.on_cpu() || other.on_cpu() || step.what != "moved" ||
            !expression_of(step, it.device).ends_with("device"))
          continue;
        if (auto fix = say_where_the_other_is(step, it, other)) return fix;
      }
  return std::nullopt;
}

// Had the constructor that made it a module on that device?
static bool given_a_module(const Operand& it, std::string_view device) {
  const auto of_a_module = [&](const finding::DeviceExpression& each) {
    return each.device == device && each.expression.starts_with("next(");
  };
  return std::ranges::any_of(it.lineage, [&](const Step& step) {
    return step.what == "made" && std::ranges::any_of(step.devices, of_a_module);
  });
}

std::optional<Fix> move_view_where_constructed(const Evidence& evidence) {
  const auto left = [](const Operand& it) { return !it.view_of.empty() && it.on_cpu() && !it.moved.known(); };
  const auto pair = evidence.pair(left, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  for (const Step& step : pair.it->lineage) {
    const std::string type = called_in_value(step.line.source);
    const std::string_view device = expression_of(step, pair.other->device);
    // One that was constructed round a module of that GPU goes there as a whole; not one that is spread.
    const auto in_parts = [&](const finding::RunningModule& each) {
      const auto elsewhere = [&](std::string_view at) { return at != "cpu" && at != pair.other->device; };
      const bool spread = std::ranges::any_of(each.devices, elsewhere) || !each.hook.empty();
      return each.type == type && each.devices.size() > 1 && (spread || !given_a_module(*pair.it, pair.other->device));
    };
    if (step.what != "returned" || type.empty() || device.empty() || !constructs(pair.it->created.stack, type) ||
        std::ranges::any_of(evidence.refusal.modules, in_parts))
      continue;
    if (auto code = move_value(step.line.source, device)) return repair_of(step.line, std::move(*code));
  }
  return std::nullopt;
}

std::optional<Fix> move_where_constructed(const Evidence& evidence) {
  const auto left = [](const Operand& it) {
    return it.is_state() && it.on_cpu() && !it.moved.known() && it.hook.empty() && !placed_when_constructed(it);
  };
  const auto pair = evidence.pair(left, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair || is_one_of_parts_left(evidence, *pair.it)) return std::nullopt;
  for (const Step& step : pair.it->lineage) {
    if (step.what != "constructed" || moves_less(*pair.it, step, pair.other->device)) continue;
    if (auto code = edit_of_step(evidence, step, *pair.it, expression_or_number(step, pair.other->device)))
      return repair_of(step.line, std::move(*code));
  }
  return std::nullopt;
}

std::optional<Fix> say_device_where_placed(const Evidence& evidence, const Operand& operand, const Operand& target) {
  const Event* placed = operand.placed();
  const Frame* line = placed ? placed->line() : nullptr;
  if (!line || !line->project || target.on_cpu() || !says_current_device(line->source)) return std::nullopt;
  std::string device = fmt::format("\"{}\"", target.device);
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    const Frame& here = evidence.stack[frame];
    if (!here.same_function(*line) || here.line <= line->line) continue;
    // A temporary's device is said by what it was computed from, of which nobody knows since when it is there.
    const bool named = !target.name_in(frame).empty() && named_before(evidence, frame, target, *line);
    if (named) device = device_expression(evidence, frame, target);
    break;
  }
  auto code = redirect_move(line->source, device);
  if (!code) code = give_device(line->source, device);
  if (!code) return std::nullopt;
  return repair_of(*line, std::move(*code));
}

}  // namespace devtrace::report::verdict
