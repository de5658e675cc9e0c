// The move that is always possible where both operands have names: it makes the line run, whatever the cause is.
#include <algorithm>

#include "common/cache_names.h"
#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

using Group = std::vector<const Operand*>;

// How a line of that frame writes the operand; empty where it does not.
std::string_view written(size_t frame, const Operand& operand) {
  const std::string_view name = operand.name_in(frame);
  if (!name.empty()) return is_reference(name) ? name : std::string_view();
  return frame == 0 ? operand.expression : std::string_view();
}

bool may_move(const Evidence& evidence, const Operand& operand) {
  return !operand.generator && !is_written_through(evidence, operand);
}

// All of the group moved in one line, one after the other.
std::optional<Fix> move_all(const Evidence& evidence, size_t frame, const Group& group, const Operand& target) {
  const std::string device = device_expression(evidence, frame, target);
  if (group.size() == 1 && !written(frame, *group[0]).empty())
    return move_with_siblings(evidence, frame, *group[0], device);
  Evidence edited = evidence;
  std::optional<Fix> fix;
  std::string code;
  for (const Operand* operand : group) {
    const std::string_view name = written(frame, *operand);
    if (name.empty()) return std::nullopt;
    if (code.find(fmt::format("{}.to({})", name, device)) != code.npos) continue;  // along with another
    const std::string_view list = name.substr(0, name.find('['));  // another element may have moved all of it
    if (list.size() < name.size() && code.find(fmt::format(" in {}]", list)) != code.npos) continue;
    fix = move_at(edited, frame, *operand, device);
    if (!fix) return std::nullopt;
    code = fix->code;
    edited.stack[frame].source = code;
    // Two lines already: a second operand would be looked for in the first of them.
    if (code.find('\n') != code.npos && evidence.stack[frame].source.find('\n') == std::string_view::npos)
      return std::nullopt;
  }
  return fix;
}

std::optional<Fix> move_group(const Evidence& evidence, const Group& group, const Operand& target) {
  std::optional<Fix> with_number;  // cuda:1 is another one on the next machine
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    if (!evidence.stack[frame].project) continue;
    auto fix = move_all(evidence, frame, group, target);
    if (fix && device_expression(evidence, frame, target).starts_with('"')) {
      if (!with_number) with_number = std::move(fix);
      continue;
    }
    if (fix) return fix;
  }
  return with_number;
}

// What a library's function was given by an expression, `kl_div(s.log_softmax(-1), t.softmax(-1))`, in that line.
std::optional<Fix> move_given(const Evidence& evidence, const Group& group, const Operand& target) {
  if (group.size() != 1) return std::nullopt;
  for (const finding::Name& each : group[0]->names) {
    if (each.frame >= evidence.stack.size() || !is_call(each.name) || says_device(each.name)) continue;
    const Frame& line = evidence.stack[each.frame];
    const std::string device = device_expression(evidence, each.frame, target);
    if (!line.project || device.starts_with('"')) continue;
    if (auto code = move_expression(line.source, each.name, device)) return line_fix(line, std::move(*code));
  }
  return std::nullopt;
}

// An attribute that the program itself has put there, as what is kept in host memory.
bool kept_on_the_cpu(const Operand& operand) {
  const Frame* const moved = operand.moved.line();
  return operand.role == "attribute" && operand.on_cpu() && moved && moved->project;
}

// `x` of the line `x[mask] = y[index]`; empty for another line.
std::string assigned_into(const Frame& frame) {
  const std::string line = dedented(frame.source);
  const std::string_view name = container_of(std::string_view(line).substr(0, Scan(line).value_begins));
  return is_reference(name) ? std::string(name) : std::string();
}

// Where the line puts what it computes: the device of `x` in `x[mask] = y[index]`. Empty where it says none.
std::string_view device_of_assigned(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const std::string name = own ? assigned_into(evidence.stack[*own]) : std::string();
  if (name.empty()) return {};
  for (const finding::Mention& mention : evidence.refusal.mentions)
    if (mention.frame == *own && mention.name == name) return mention.device;
  for (const Operand& operand : evidence.operands)
    if (operand.name_in(*own) == name) return operand.device;
  return {};
}

// Of `self.norm(x + skip)` where that part of the running module lies. Empty: the line gives its result to no part, or
// to one on several devices.
std::string_view device_of_taker(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    if (!own || module.frame != *own) continue;
    const std::string_view line = evidence.stack[*own].source;
    const Scan scan(line);
    for (const finding::Part& part : module.parts) {
      const std::string call = fmt::format("self.{}(", part.name);
      const size_t begin = line.find(call), open = begin + call.size() - 1;
      const size_t close = begin == line.npos ? begin : closing(scan, line, open);
      if (close == line.npos || part.devices.size() != 1) continue;
      const std::string_view given = line.substr(open + 1, close - open - 1);
      const auto within = [&](const Operand& each) { return reads(given, each.name_in(*own)) > 0; };
      if (within(it) && within(other)) return part.devices[0];
    }
  }
  return {};
}

// Outside of modules: has the failing function been given it, and made the other one itself?
bool is_given_beside_own(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  return own && evidence.refusal.modules.empty() && it.role == "argument" && evidence.made_under(other, *own);
}

// Has the failing function brought it to its object's device? Then that is where the object's work is done.
bool is_where_its_object_works(const Evidence& evidence, const Operand& it, const Operand&) {
  const auto own = innermost_project(evidence.stack);
  const Frame* const line = it.moved.line();
  return own && line && line->same_function(evidence.stack[*own]) && it.device_from.name.starts_with("self.");
}

// `total = total + part`, which has made it in a pass before: what has been summed up stays where it is.
bool is_accumulated(const Evidence& evidence, const Operand& it, const Operand&) {
  const auto own = innermost_project(evidence.stack);
  const Frame* const made = it.created.line();
  return own && made && !it.moved.known() && it.role == "variable" && made->same_line(evidence.stack[*own]) &&
         assigned_name(evidence.stack[*own].source) == it.name_in(*own);
}

// Did a part of a model give it for what the other one was computed from, too? It goes back to where that is.
bool came_back_from_a_part(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  const Frame* const made = it.created.line();
  if (!own || !made || !made->same_function(evidence.stack[*own]) || it.on_cpu() ||
      computed_where_its_module_lies(other))
    return false;
  return std::any_of(other.computed_from.begin(), other.computed_from.end(), [&](const Operand& source) {
    const std::string_view name = source.name_in(*own);
    return source.device == other.device && is_identifier(name) && callee_of(made->source, name).has_value();
  });
}

// An index goes to what it is of, wherever somebody keeps that.
bool is_index_of_settled(const Evidence& evidence, const Operand& it, const Operand& other) {
  return (!other.on_cpu() || kept_on_the_cpu(other)) && evidence.is_index_of(it, other);
}

// What it costs to move an operand to where the other one is: the first row that fits. State stays where it is, what is
// on the CPU goes to the GPU, what an object has kept goes to what is computed now.
struct Cost {
  int cost;
  bool (*fits)(const Evidence& evidence, const Operand& it, const Operand& other);
};
constexpr Cost kCosts[] = {
    {100, [](const Evidence&, const Operand& it, const Operand&) { return it.is_of_state(); }},
    {1, [](const Evidence&, const Operand& it, const Operand&) { return it.on_cpu() && !kept_on_the_cpu(it); }},
    {2, is_index_of_settled},
    {9, [](const Evidence&, const Operand& it,
           const Operand&) { return it.role == "attribute" || names_a_cache(it.name); }},
    // The side that is trained is where the work is done.
    {11,
     [](const Evidence&, const Operand& it, const Operand& other) { return it.requires_grad && !other.requires_grad; }},
    {12, is_where_its_object_works},
    {13, is_accumulated},
    {8, came_back_from_a_part},
    {11, is_given_beside_own},
    {10, [](const Evidence&, const Operand&, const Operand&) { return true; }},
};
// … and to take anything away from where a module's work is done, or from where the line puts its result.
constexpr int kFromItsPlace = 50;

// Is another one there that the failing line gives to a function beside it? `loss(s, y) + other(s, t)`.
bool stands_with_more(const Evidence& evidence, const Group& group) {
  const auto own = innermost_project(evidence.stack);
  if (!own) return false;
  const std::string_view line = evidence.stack[*own].source;
  std::vector<std::string_view> names, others;
  for (const Operand* each : group) {
    const std::string_view text = written(*own, *each).empty() ? each->name_in(*own) : written(*own, *each);
    if (is_identifier(text)) names.push_back(text);
    for (const Operand& source : each->computed_from)
      (reads(text, source.name_in(*own)) > 0 ? names : others).push_back(source.name_in(*own));
  }
  const auto beside = [&](std::string_view name, std::string_view device) {
    return device == group[0]->device && is_identifier(name) &&
           std::find(names.begin(), names.end(), name) == names.end() &&
           std::any_of(names.begin(), names.end(),
                       [&](std::string_view each) { return is_argument_beside(line, name, each); });
  };
  const auto device = std::string_view(group[0]->device);
  return std::any_of(others.begin(), others.end(), [&](std::string_view each) { return beside(each, device); }) ||
         std::any_of(evidence.refusal.expressions.begin(), evidence.refusal.expressions.end(),
                     [&](const finding::FrameExpression& each) {
                       const std::string_view tensor =
                           std::string_view(each.expression).substr(0, each.expression.rfind('.'));
                       return each.frame == *own && beside(tensor, each.device);
                     }) ||
         std::any_of(
             evidence.refusal.mentions.begin(), evidence.refusal.mentions.end(),
             [&](const finding::Mention& each) { return each.frame == *own && beside(each.name, each.device); });
}

// Fewer are moved rather than more.
int cost(const Evidence& evidence, const Group& group, const Operand& other) {
  const std::string& from = group[0]->device;
  int sum = stands_with_more(evidence, group) +
            kFromItsPlace * ((evidence.own_device() == from) + (device_of_assigned(evidence) == from) +
                             (device_of_taker(evidence, *group[0], other) == from));
  for (const Operand* operand : group)
    sum += std::find_if(std::begin(kCosts), std::end(kCosts), [&](const Cost& each) {
             return each.fits(evidence, *operand, other);
           })->cost;
  return sum;
}

// The operands of two devices: those that are to be moved, and those that stay. Nothing where there are more devices.
std::optional<std::pair<Group, Group>> sides(const Evidence& evidence) {
  if (evidence.kind != "refused-op") return std::nullopt;
  Group first, second;
  for (const Operand& operand : evidence.operands) {
    if (operand.device.empty()) continue;
    if (first.empty() || first[0]->device == operand.device)
      first.push_back(&operand);
    else if (second.empty() || second[0]->device == operand.device)
      second.push_back(&operand);
    else
      return std::nullopt;
  }
  if (first.empty() || second.empty()) return std::nullopt;
  if (cost(evidence, second, *first[0]) < cost(evidence, first, *second[0])) std::swap(first, second);
  return std::pair(std::move(first), std::move(second));
}

// Is the comprehension all that torch.cat or the like is given: `torch.cat([each.flatten() for each in states])`?
bool is_given_whole(std::string_view line, const Scan& scan, size_t element, size_t keyword) {
  constexpr std::string_view kJoining[] = {"cat([", "concat([", "stack([", "hstack([", "vstack(["};
  const size_t begin = line.find_last_not_of(" \n", element - 1) + 1;
  return scan.depth[keyword] > 1 &&
         std::ranges::any_of(kJoining, [&](std::string_view each) { return line.substr(0, begin).ends_with(each); });
}

// `each` and `states` of `each in states`; nothing for other clauses.
std::optional<std::pair<std::string_view, std::string_view>> variable_and_list(std::string_view clause) {
  constexpr std::string_view kIn = " in ";
  const size_t in = clause.find(kIn);
  if (in == clause.npos) return std::nullopt;
  const std::pair both(trimmed(clause.substr(0, in)), trimmed(clause.substr(in + kIn.size())));
  return is_identifier(both.first) && is_reference(both.second) ? std::optional(both) : std::nullopt;
}

// `torch.stack([part.norm() for part in parts])`, whose elements have no names: each brought to where `target` is, or
// to where the first one is.
std::optional<Fix> move_elements(const Evidence& evidence, const Operand& target) {
  constexpr std::string_view kFor = " for ";
  const auto own = innermost_project(evidence.stack);
  if (!own) return std::nullopt;
  const Frame& line = evidence.stack[*own];
  const std::string_view source = line.source;
  const size_t end = source.find(kFor);
  // An optimizer goes through all that it has by two loops.
  const bool of_groups = source.find(" in self.param_groups") != source.npos;
  if (end == source.npos || (!of_groups && source.find(kFor, end + 1) != source.npos)) return std::nullopt;
  const Scan scan(source);
  size_t close = end;
  while (close < source.size() && scan.depth[close] >= scan.depth[end]) ++close;
  const Span each = element_before(source, scan, end);
  const std::string_view element = source.substr(each.begin, each.end - each.begin);
  const auto loop = variable_and_list(source.substr(end + kFor.size(), close - end - kFor.size()));
  const bool whole = is_given_whole(source, scan, each.begin, end);
  const auto is_element = [&](const Operand& it) {
    const Frame* const made = it.created.line();
    // A comprehension is a function of its own before Python 3.12. A view was made where its memory was.
    const bool here = whole || (made && made->file == line.file && made->line == line.line);
    const std::string_view name = it.name_in(*own);
    const bool of_the_list =
        whole && loop && name.starts_with(loop->second) && name.substr(loop->second.size()).starts_with('[');
    return it.expression.empty() && here && (it.names.empty() || of_the_list);
  };
  if (!std::ranges::all_of(evidence.operands, is_element)) return std::nullopt;
  std::string device(expression_of(evidence, *own, target.device));
  if (device.empty() && loop && begins_with(element) == loop->first) device = fmt::format("{}[0].device", loop->second);
  if (of_groups && whole) device = "self.param_groups[0][\"params\"][0].device";
  if (device.empty() || binds(source, device.substr(0, device.find_first_of(".([")))) return std::nullopt;
  const auto moved = move_expression(element, element, device);
  return moved ? std::optional(line_fix(line, dedented(spliced(source, each, *moved)))) : std::nullopt;
}

// `total = torch.zeros_like(mask)` above `total[mask] = scores`: what is written to stays where it was made, and goes
// with what it was made like. That is brought to the other one by the outermost line that gives it by a name.
std::optional<Fix> move_what_it_was_made_of(const Evidence& evidence, const Group& group, const Operand& target) {
  const auto own = innermost_project(evidence.stack);
  const std::string name = own ? assigned_into(evidence.stack[*own]) : std::string();
  const auto written_to = std::find_if(group.begin(), group.end(), [&](const Operand* each) {
    return each->on_cpu() && !name.empty() && each->name_in(*own) == name;
  });
  if (written_to == group.end() || !(*written_to)->created.line()) return std::nullopt;
  const std::string_view made = (*written_to)->created.line()->source;
  std::vector<const Operand*> sources;
  for (const Operand* each : group)
    if (each != *written_to && reads(made, each->name_in(*own)) > 0) sources.push_back(each);
  for (const Operand& each : (*written_to)->computed_from) sources.push_back(&each);
  if (sources.size() != 1 || sources[0]->device != (*written_to)->device || sources[0]->moved.known())
    return std::nullopt;
  std::optional<Fix> outermost;
  for (size_t frame = *own + 1; frame < evidence.stack.size(); ++frame) {
    if (!evidence.stack[frame].project || sources[0]->name_in(frame).empty()) continue;
    const std::string device = device_expression(evidence, frame, target);
    if (device.starts_with('"')) continue;
    if (auto fix = move_at(evidence, frame, *sources[0], device)) outermost = std::move(fix);
  }
  return outermost;
}

}  // namespace

bool is_written_through(const Evidence& evidence, const Operand& operand) {
  return std::any_of(operand.names.begin(), operand.names.end(), [&](const finding::Name& name) {
    return name.frame < evidence.stack.size() && writes_through(evidence.stack[name.frame].source, name.name) &&
           !is_kept_and_written(evidence, name.frame, operand);
  });
}

std::optional<Fix> use_site(const Evidence& evidence) {
  const auto found = sides(evidence);
  if (!found) return std::nullopt;
  const auto& [first, second] = *found;
  for (const auto& [group, other] : {std::pair(&first, &second), std::pair(&second, &first)})
    if (auto fix = move_what_it_was_made_of(evidence, *group, *(*other)[0])) return fix;
  std::optional<Fix> with_number;
  for (const auto& [group, other] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    if (!std::all_of(group->begin(), group->end(), [&](const Operand* each) { return may_move(evidence, *each); }))
      continue;
    auto fix = move_group(evidence, *group, *(*other)[0]);
    if (!fix) continue;
    const std::string& device = (*other)[0]->device;
    if (fix->code.find(fmt::format(".to(\"{}\")", device)) == fix->code.npos) return fix;
    // What the line does not show takes no work to the CPU.
    const bool shown = std::any_of(other->begin(), other->end(), [](const Operand* each) {
      return !each->names.empty() || !each->expression.empty();
    });
    if (!with_number && (device != "cpu" || shown)) with_number = std::move(fix);
  }
  if (!with_number) return move_elements(evidence, evidence.operands.front());
  if (auto fix = move_given(evidence, first, *second[0])) return fix;
  return with_number;
}

std::optional<Fix> move_expression_given(const Evidence& evidence) {
  const auto found = sides(evidence);
  return found ? move_given(evidence, found->first, *found->second[0]) : std::nullopt;
}

}  // namespace devtrace::report::verdict
