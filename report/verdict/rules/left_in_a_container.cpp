// What stands beside an operand, or beside what holds it, was brought to where the other one is. The operand was not:
// the line looks no deeper, or a batch moves its fields one by one.
#include <algorithm>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

// `value.to(d) if isinstance(value, torch.Tensor) else value`, of whatever the value holds.
std::optional<std::string> move_all_within(std::string_view source, std::string_view asks,
                                           std::string_view tensor_else) {
  constexpr std::string_view kTo = ".to(";
  const size_t test = source.find(asks);
  const size_t name = test == source.npos ? test : test + asks.size();
  const size_t tensor = name == source.npos ? name : source.find(tensor_else, name);
  if (tensor == source.npos || source.find(asks, name) != source.npos) return std::nullopt;
  const std::string_view value = source.substr(name, tensor - name);
  const std::string_view rest = source.substr(tensor + tensor_else.size());
  const std::string moved = fmt::format("{}{}", value, kTo);
  const size_t begin = source.rfind(moved, test);
  if (!is_identifier(value) || !rest.starts_with(value) || begin == source.npos) return std::nullopt;
  const std::string_view move = source.substr(begin, test - begin);
  return dedented(fmt::format("{}torch.utils._pytree.tree_map_only(torch.Tensor, lambda {}: {}, {}){}",
                              source.substr(0, begin), value, move, value, rest.substr(value.size())));
}

std::optional<std::string> move_all_within(std::string_view source) {
  auto code = move_all_within(source, " if isinstance(", ", torch.Tensor) else ");
  return code ? code : move_all_within(source, " if torch.is_tensor(", ") else ");
}

// `replace(self, ids=self.ids.to(device))` → `…, mask=self.mask.to(device))`: the keyword of the one that was moved, as
// the other one would say it.
std::optional<std::string> move_along(std::string_view source, std::string_view moved, std::string_view left) {
  const std::string_view from = last_step(moved), to = last_step(left);
  if (!from.starts_with('.') || !to.starts_with('.')) return std::nullopt;
  const std::string_view keyword = from.substr(1);
  const auto value = keyword_argument(source, keyword);
  if (!value || keyword_argument(source, to.substr(1))) return std::nullopt;
  auto own = replace_expression(*value, fmt::format("self{}", from), fmt::format("self{}", to));
  const std::string written = fmt::format("{}={}", keyword, *value);
  const size_t at = source.find(written);
  if (!own || at == source.npos) return std::nullopt;
  const size_t end = at + written.size();
  return dedented(spliced(source, {end, end}, fmt::format(", {}={}", to.substr(1), *own)));
}

// `self.x, self.y = self.x.to(device), self.y.to(device)`, and behind it the same move of the other one.
std::optional<std::string> move_behind_several(const std::string& statement, std::string_view from,
                                               std::string_view to) {
  const Scan scan(statement);
  const std::string move = fmt::format("{}.to(", from);
  const size_t begin = statement.find(move, scan.value_begins), comma = statement.find(',');
  if (scan.value_begins == 0 || !scan.balanced || comma >= scan.value_begins || begin == std::string::npos ||
      scan.depth[begin] != 0)
    return std::nullopt;
  size_t close = begin + move.size();
  while (close < statement.size() && !(scan.code[close] && statement[close] == ')' && scan.depth[close] == 0)) ++close;
  if (close + 1 < statement.size() && statement[close + 1] != ',') return std::nullopt;
  const std::string_view given = std::string_view(statement).substr(begin + move.size(), close - begin - move.size());
  return fmt::format("{}\n{} = {}.to({})", statement, to, to, given);
}

// `self.ids = self.ids.to(device)`, and behind it the same of the other one.
std::optional<std::string> move_behind(std::string_view source, std::string_view moved, std::string_view left) {
  const std::string from = fmt::format("self{}", last_step(moved)), to = fmt::format("self{}", last_step(left));
  const std::string statement = dedented(source);
  if (last_step(moved).empty() || last_step(left).empty()) return std::nullopt;
  if (auto code = move_behind_several(statement, from, to)) return code;
  if (assigned_name(statement) != from || reads(statement, from) != 1) return std::nullopt;
  const size_t equals = statement.find('=');
  auto value = replace_read(statement.substr(equals + 1), from, to);
  if (!value) return std::nullopt;
  return fmt::format("{}\n{} = {}", statement, to, dedented(*value));
}

// `replace(self, ids=self.ids.to(device))` → `…, spans=replace(self.spans, **{…}))`: what the other one lies in, with
// all that has a .to(). `path`: `.spans.starts`.
std::optional<std::string> move_along_with_holder(std::string_view source, std::string_view moved,
                                                  std::string_view path) {
  constexpr std::string_view kReplace = "replace(self, ";
  const std::string_view from = last_step(moved);
  const size_t end = path.find_first_of(".[", 1), call = source.find(kReplace);
  if (!from.starts_with('.') || !path.starts_with('.') || end == path.npos || call == source.npos) return std::nullopt;
  const std::string_view field = path.substr(1, end - 1);
  const auto value = keyword_argument(source, from.substr(1));
  const std::string own = fmt::format("self{}.to(", from),
                    written = fmt::format("{}={}", from.substr(1), value.value_or(""));
  const size_t at = source.find(written);
  if (!value || !value->starts_with(own) || keyword_argument(source, field) || at < call || at == source.npos)
    return std::nullopt;
  const std::string_view module = source.substr(0, call).ends_with("dataclasses.") ? "dataclasses." : "";
  const size_t behind = at + written.size();
  return dedented(spliced(source, {behind, behind},
                          fmt::format(", {0}={1}replace(self.{0}, **{{key: value.to({2} for key, value in "
                                      "vars(self.{0}).items() if hasattr(value, \"to\")}})",
                                      field, module, std::string_view(*value).substr(own.size()))));
}

// The operand, or the first that it was computed from where one line has left all of them.
const Operand& what_was_left(const Operand& it) {
  if (left_by(it) || it.computed_from.empty() || it.moved.known()) return it;
  const finding::Step* const first = left_by(it.computed_from[0]);
  const bool all = first && std::ranges::all_of(it.computed_from, [&](const Operand& each) {
                     const finding::Step* const own = left_by(each);
                     return own && own->line.same_line(first->line) && each.device == it.device;
                   });
  return all ? it.computed_from[0] : it;
}

// By a line of the failing function, `sums["x"] = torch.zeros(3)`.
bool put_there_now(const Evidence& evidence, const Operand& it) {
  const auto own = innermost_project(evidence.stack);
  const Frame* const made = it.created.line();
  if (!own || !made || !made->same_function(evidence.stack[*own])) return false;
  const auto target = assigned_name(made->source);
  return target && std::any_of(it.names.begin(), it.names.end(),
                               [&](const finding::Name& each) { return each.name == with_one_quote(*target); });
}

// Do both hang on the same thing, or does the operand lie deeper?
bool directly_beside(std::string_view name, std::string_view moved) {
  return !last_step(name).empty() && holder_of(name) == holder_of(moved);
}

// `.spans.starts`, the way to the operand from what holds the one that was moved, too; empty where no name tells it.
std::string_view path_within(const Operand& it, std::string_view moved) {
  const std::string_view holder = holder_of(moved);
  const auto within = [&](std::string_view name) {
    return name.starts_with(holder) && name.size() > holder.size() ? name.substr(holder.size()) : std::string_view();
  };
  for (const finding::Name& each : it.names)
    if (const auto path = within(each.name); !path.empty()) return path;
  for (const Chain& chain : it.held_by)
    if (const auto path = within(chain.name); !path.empty()) return path;
  return {};
}

// Its names, and the reference that a line has taken it from: `source, target = batch.edges`.
std::vector<std::string_view> names_of(const Operand& it) {
  std::vector<std::string_view> found;
  for (const finding::Name& each : it.names) found.push_back(each.name);
  for (const finding::Step& step : it.lineage)
    if (const std::string_view value = value_in(step.line.source); step.what == "assigned" && is_reference(value))
      found.push_back(value);
  return found;
}

// `Batch(self.graph.to(device), self.target)` → `…, self.target.to(device))`: in a line by which the other one,
// `moved`, came to its device, of a method of what holds both. What lies deeper has a .to() of its own if the other one
// has.
std::optional<Fix> move_beside(const Operand& it, std::string_view moved, const Stack& lines) {
  for (const std::string_view own : names_of(it)) {
    const size_t same =
        static_cast<size_t>(std::mismatch(own.begin(), own.end(), moved.begin(), moved.end()).first - own.begin());
    const size_t holder = own.rfind('.', same);
    if (holder == own.npos || moved.rfind('.', same) != holder) continue;
    const auto step = [&](std::string_view name) {
      return name.substr(holder, std::min(name.find_first_of(".[", holder + 1), name.size()) - holder);
    };
    if (own.size() > holder + step(own).size() && moved.size() == holder + step(moved).size()) continue;
    const std::string from = fmt::format("self{}", step(moved)), to = fmt::format("self{}", step(own));
    for (const Frame& line : lines) {
      const size_t call = line.source.find(from + ".");
      const size_t open = call == line.source.npos ? call : line.source.find('(', call);
      const size_t close = open == line.source.npos ? open : closing(Scan(line.source), line.source, open);
      if (!line.project || close == line.source.npos) continue;
      const std::string move = line.source.substr(call + from.size(), close + 1 - call - from.size());
      if (!move.starts_with(".to(") && !move.starts_with(".cuda(")) continue;
      if (auto code = replace_read(line.source, to, to + move)) return repair_of(line, std::move(*code));
    }
  }
  return std::nullopt;
}

}  // namespace

const finding::Step* left_by(const Operand& it) {
  const auto step =
      std::find_if(it.lineage.begin(), it.lineage.end(), [](const finding::Step& each) { return each.what == "left"; });
  // A line that makes one tensor for a device has looked into no container.
  const bool looks = step != it.lineage.end() && step->line.project && !makes_tensor(step->line.source);
  return looks ? &*step : nullptr;
}

std::optional<Cause> left_in_a_container(const Evidence& evidence) {
  // What a module has registered lies in no container, nor does what the failing function has put there by itself.
  const auto left = [&](const Operand& each) {
    const Operand& it = what_was_left(each);
    return left_by(it) && !it.is_of_state() && !put_there_now(evidence, it);
  };
  const auto pair = evidence.pair(left, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Operand& it = what_was_left(*pair.it);
  const finding::Step& step = *left_by(it);
  const auto along = [&](const finding::Name& each) { return directly_beside(each.name, step.call); };
  const auto name = std::find_if(it.names.begin(), it.names.end(), along);
  const bool beside = name != it.names.end();
  auto code = beside ? move_along(step.line.source, step.call, name->name) : move_all_within(step.line.source);
  // What the line asks before it moves is what has left it.
  const Confidence confidence = code && !beside ? Confidence::high : Confidence::medium;
  const std::string computed = &it == pair.it ? "" : fmt::format("{} was computed from {}. ", pair.it->name, it.name);
  if (!code && beside) code = move_behind(step.line.source, step.call, name->name);
  if (!code) code = move_along_with_holder(step.line.source, step.call, path_within(it, step.call));
  auto fix = code ? std::optional(repair_of(step.line, std::move(*code))) : move_beside(it, step.call, {step.line});
  return Cause{
      "input-not-moved", confidence,
      computed +
          (beside
               ? fmt::format("{} stands beside {}, which {} brought to {}, and was left there. It meets {}.",
                             with_place(it), step.call, at(&step.line), pair.other->device, with_place(*pair.other))
               : fmt::format("{} lies within a container, which {} did not look into when it brought {} to {}. It "
                             "meets {}.",
                             with_place(it), at(&step.line), step.call, pair.other->device, with_place(*pair.other))),
      fix ? std::move(fix) : use_site(evidence)};
}

std::optional<Cause> left_of_one_line(const Evidence& evidence) {
  const auto pair = evidence.pair([&](const Operand& it) { return evidence.left_of_its_line(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Operand& moved = *evidence.left_of_its_line(*pair.it);
  std::optional<Fix> fix;
  for (const finding::Name& name : moved.names)
    if (!fix) fix = move_beside(*pair.it, name.name, moved.moved.stack);
  return Cause{
      "input-not-moved", Confidence::medium,
      fmt::format("{} was left where it is, and {}, which the same line made, was brought to {} at {}. It "
                  "meets {}.",
                  with_place(*pair.it), moved.name, moved.device, at(moved.moved.line()), with_place(*pair.other)),
      fix ? std::move(fix) : use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
