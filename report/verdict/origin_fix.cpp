// The line that decided on an operand's device, deciding otherwise: where it was made, moved or constructed, or where a
// function returned it.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/cause.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/source_line.h"
#include "report/verdict/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

using finding::Step;

using Operands = std::vector<const Operand*>;

// What it was computed from that lies where it lies.
Operands sources_of(const Operand& it) {
  Operands there;
  for (const Operand& source : it.computed_from)
    if (source.device == it.device) there.push_back(&source);
  return there;
}

// An operand, and what it was computed from, and so on; the first made comes first.
void add_sources(const Operand& it, Operands& out) {
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

// Did all operands of its device pass the line?
bool all_passed(const Evidence& evidence, const Operand& operand, const Frame& line) {
  return std::all_of(evidence.operands.begin(), evidence.operands.end(),
                     [&](const Operand& each) { return each.device != operand.device || passed(each, line); });
}

// A variable or an attribute said "cuda".
bool current_by_name(const Operand& it) {
  return it.device_from.says == "cuda";
}

// What a call gives, by another one; "cpu" was meant.
std::optional<std::string> give_instead(std::string_view source, std::string_view given, std::string_view device) {
  const size_t at = source.find(given);
  if (at == source.npos || given.find("cpu") != given.npos) return std::nullopt;
  if (given.front() != '"' && given.front() != '\'') return replace_expression(source, given, device);
  const bool once = source.find(given, at + 1) == source.npos;
  return once ? std::optional(dedented(spliced(source, {at, at + given.size()}, device))) : std::nullopt;
}

// `keys, values = f(x)` → `keys, values = (value.to(device) for value in f(x))`, where these are all operands or
// siblings of one, on one device.
std::optional<std::string> edit_of_unpacked(std::string_view source, const Operand& it, const Evidence& evidence,
                                            std::string_view device) {
  const std::vector<std::string> targets = unpacked_names(source);
  const auto along = [&](const std::string& name) {
    const auto is = [&](const Operand& each) {
      return each.device == it.device &&
             std::any_of(each.names.begin(), each.names.end(), [&](const auto& own) { return own.name == name; });
    };
    return std::any_of(evidence.operands.begin(), evidence.operands.end(), is) ||
           std::any_of(it.siblings.begin(), it.siblings.end(), is);
  };
  const auto named = [&](const finding::Name& each) {
    return std::find(targets.begin(), targets.end(), each.name) != targets.end();
  };
  if (!it.on_cpu() || called_in_value(source).empty() || std::none_of(it.names.begin(), it.names.end(), named) ||
      !std::all_of(targets.begin(), targets.end(), along) || binds(source, "value"))
    return std::nullopt;
  return replace_value(source, fmt::format("(value.to({}) for value in {})", device, value_in(source)));
}

// What the line gives a name, on that device: the operand, or the container that has it.
std::optional<std::string> edit_of_value(const Evidence& evidence, const Step& step, const Operand& it,
                                         std::string_view device) {
  const std::string_view source = step.line.source;
  // A function that has returned, and has handed it on.
  if (step.what == "returned" && trimmed(source).starts_with("return ")) return move_value(source, device);
  const auto target = assigned_name(source);
  if (!target) return edit_of_unpacked(source, it, evidence, device);
  const std::string path = it.is_state() ? "." + it.module_path : std::string();
  const std::string written = with_one_quote(*target);
  for (const finding::Name& each : it.names) {
    if (each.name == written + path) return move_value(source, device);
    const std::string_view container = container_of(each.name),
                           subscript = std::string_view(each.name).substr(container.size());
    const bool one_step = !it.is_state() && !container.empty() && each.name.find(']') + 1 == each.name.size();
    if (!one_step) continue;
    if (container == container_of(written)) return move_value(source, device);
    if (container == *target && !called_in_value(source).empty())
      return replace_value(source, moved_container(it, container, subscript, value_in(source), std::string(device)));
  }
  return std::nullopt;
}

std::optional<std::string> edit(const Evidence& evidence, const Step& step, const Operand& it,
                                std::string_view device) {
  const std::string_view source = step.line.source;
  if (step.what == "discarded") return kept_move(source);
  if (device.empty()) return std::nullopt;
  if (step.what == "constructed") {
    if (says_device(source)) return std::nullopt;
    auto code = move_constructed(source, step.call, device);
    return code ? code : move_result(source, step.call, device);
  }
  if (step.what == "appended") return it.on_cpu() ? give_device_to_all(source, device) : std::nullopt;
  if (step.what == "given") return give_instead(source, step.otherwise, device);
  if (step.what == "defaulted") return give_argument(source, step.call, step.parameter, device);
  const bool bound = step.what == "returned" || step.what == "assigned";
  if (step.what != "moved" && !(bound && it.is_state()) && it.is_of_state() && in_a_constructor(it.created.stack))
    return std::nullopt;
  if (bound && it.is_state() && !it.on_cpu()) return std::nullopt;
  if (bound) return edit_of_value(evidence, step, it, device);
  if (says_current_device(source) || current_by_name(it)) {
    auto code = redirect_move(source, device);
    if (!code) code = give_device(source, device);
    return code ? code : say_device(source, device);
  }
  if (step.what != "made" || it.moved.known() || says_device(source)) return std::nullopt;
  if (auto code = give_device(source, device)) return code;
  return gives_new_tensor(source) ? move_value(source, device) : std::nullopt;
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

// Left where the default is, or brought to the device that was current: by no choice of anybody's.
bool undecided(const Operand& it) {
  const Event* placed = it.placed();
  if (std::any_of(it.lineage.begin(), it.lineage.end(), [](const Step& each) { return each.what == "defaulted"; }))
    return true;
  if (current_by_name(it) || given_the_current_device(it)) return true;
  if (it.on_cpu()) return !it.moved.known();
  return placed && placed->line() && says_current_device(placed->line()->source);
}

}  // namespace

namespace {

// The line that a fix changes, as the operand passed it.
struct OnTheWay {
  Fix fix;
  const Frame* line;
};

// The first line that it passed, for which `enough` holds, and that can say the wanted device.
template <typename Enough>
std::optional<OnTheWay> fix_on_the_way(const Evidence& evidence, const Operand& it, std::string_view wanted,
                                       const Enough& enough) {
  if (!undecided(it)) return std::nullopt;
  for (const Step& step : it.lineage) {
    std::string device(expression_of(step, wanted));
    if (device.empty()) device = made_beside(evidence, it, step, wanted);
    if (device.empty() || step.line.source.empty() || !enough(step.line)) continue;
    if (auto code = edit(evidence, step, it, device))
      return OnTheWay{repair_of(step.line, std::move(*code)), &step.line};
  }
  return std::nullopt;
}

// Of an operand that was computed from several: each in a line of its own. All other operands there have passed these.
std::optional<Fix> fix_of_each_source(const Evidence& evidence, const Operand& operand, std::string_view wanted) {
  constexpr size_t kMost = 4;
  const Operands sources = sources_of(operand);
  if (sources.size() < 2 || sources.size() > kMost) return std::nullopt;
  std::optional<Fix> all;
  std::vector<const Frame*> lines;
  const auto covered = [&](const Operand& each) {
    return std::any_of(lines.begin(), lines.end(), [&](const Frame* line) { return passed(each, *line); });
  };
  for (const Operand* source : sources) {
    if (covered(*source)) continue;
    auto one = fix_on_the_way(evidence, *source, wanted, [](const Frame&) { return true; });
    if (!one) return std::nullopt;
    lines.push_back(one->line);
    if (all)
      all->also.push_back({std::move(one->fix.file), one->fix.line, std::move(one->fix.code)});
    else
      all = std::move(one->fix);
  }
  for (const Operand& each : evidence.operands)
    if (&each != &operand && each.device == operand.device && !covered(each)) return std::nullopt;
  return all;
}

}  // namespace

std::optional<Fix> fix_at_origin(const Evidence& evidence) {
  if (evidence.kind != "refused-op") return std::nullopt;
  for (const Operand& operand : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      if (operand.device == other.device || operand.device.empty() || other.on_cpu() || operand.generator ||
          !operand.moved_away.device.empty())
        continue;
      const auto enough = [&](const Frame& line) { return all_passed(evidence, operand, line); };
      Operands sources;
      add_sources(operand, sources);
      for (const Operand* it : sources)
        if (auto found = fix_on_the_way(evidence, *it, other.device, enough)) return std::move(found->fix);
      if (auto fix = fix_of_each_source(evidence, operand, other.device)) return fix;
    }
  }
  return std::nullopt;
}

std::optional<Fix> fix_at_origin_of(const Evidence& evidence, const Operand& operand, std::string_view wanted) {
  if (!undecided(operand)) return std::nullopt;
  for (const Step& step : operand.lineage)
    if (auto code = edit(evidence, step, operand, expression_of(step, wanted)))
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
      code = edit(evidence, step, sibling, expression_of(step, device));
    else if (auto buffer = register_buffer(line, sibling))
      code = std::move(buffer->code);
    if (code) return finding::Edit{line.file, line.line, std::move(*code)};
  }
  return std::nullopt;
}

void add_siblings(const Evidence& evidence, Fix& fix) {
  if (fix.repairs != Repairs::cause || fix.code.empty()) return;
  for (const Operand& operand : evidence.operands) {
    const auto other = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                    [&](const Operand& each) { return each.device != operand.device; });
    if (other == evidence.operands.end()) continue;
    Operands sources;
    add_sources(operand, sources);
    for (const Operand* it : sources) {
      const auto step = std::find_if(it->lineage.begin(), it->lineage.end(), [&](const Step& each) {
        return each.line.file == fix.file && each.line.line == fix.line;
      });
      if (step == it->lineage.end()) continue;
      for (const Operand& sibling : it->siblings)
        if (auto code = edit_alike(evidence, fix, *step, sibling, other->device)) fix.also.push_back(std::move(*code));
    }
  }
}

std::optional<Fix> move_where_constructed(const Evidence& evidence) {
  const auto left = [](const Operand& it) {
    return it.is_state() && it.on_cpu() && !it.moved.known() && it.hook.empty();
  };
  const auto pair = evidence.pair(left, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  for (const Step& step : pair.it->lineage) {
    if (step.what != "constructed") continue;
    if (auto code = edit(evidence, step, *pair.it, expression_or_number(step, pair.other->device)))
      return repair_of(step.line, std::move(*code));
  }
  return std::nullopt;
}

}  // namespace devtrace::report::verdict
