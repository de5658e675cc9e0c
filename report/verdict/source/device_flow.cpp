#include "report/verdict/source/device_flow.h"

#include <algorithm>
#include <utility>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

// The top-level `=` of `a = b = value`, each with its place; of `a += value` the one.
std::vector<size_t> assignments(std::string_view text, const Scan& scan) {
  std::vector<size_t> found;
  for (size_t at = 0; at < text.size(); ++at)
    if (scan.code[at] && scan.depth[at] == 0 && text[at] == '=' && is_assignment(text, at)) found.push_back(at);
  return found;
}

}  // namespace

void DeviceFlow::forget(std::string_view name) {
  std::erase_if(names, [&](const auto& each) {
    const std::string_view own = each.first;
    return own.starts_with(name) &&
           (own.size() == name.size() || std::string_view(".[(").find(own[name.size()]) != std::string_view::npos);
  });
  devices.erase(std::string(name));
}

void DeviceFlow::assign(std::string_view targets, const FlowValue& value) {
  std::string_view text = trimmed(targets);
  while (text.starts_with('(') && text.ends_with(')')) text = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::string> each = parts_of_display(text);
  std::erase(each, "");
  if (each.size() > 1) {
    for (size_t i = 0; i < each.size(); ++i) {
      FlowValue one;
      one.device = value.device;
      if (value.elements.size() == each.size()) one = value.elements[i];
      assign(each[i], one);
    }
    return;
  }
  if (each.empty()) return;
  const std::string name = with_one_quote(each[0]);
  if (!is_reference(name)) return;
  forget(name);
  // The words mean what the variable has: another device now, as far as is known.
  if (variable_of(words) == name && value.device != to) words.clear();
  if (!value.device.empty()) names[name] = value.device;
  if (!value.said.empty()) devices[name] = value.said;
}

// `x[places] = value`: all three lie on one device, but for places on the CPU.
void DeviceFlow::store(std::string_view text, std::string_view target, const FlowValue& value,
                       std::vector<FlowMove>& moves) const {
  const size_t begin = skip_blanks(target, 0) + static_cast<size_t>(target.data() - text.data());
  const std::string_view up_to = text.substr(0, begin + trimmed(target).size());
  if (!up_to.ends_with(']')) return;
  FlowReader reader(*this, up_to, begin);
  try {
    const FlowValue there = reader.one();
    if (!reader.at_end() || !there.indexed || there.device != to) return;
    const auto of_itself = [&](const FlowMove& each) { return each.begin == there.begin; };
    if (std::ranges::any_of(reader.moves, of_itself)) return;  // what is written to stays
    moves.insert(moves.end(), reader.moves.begin(), reader.moves.end());
    const std::string device = there.base.empty() ? words : there.base + ".device";
    if (value.device == from && !device.empty()) moves.push_back({value.begin, value.end, value.compound, device});
  } catch (const NotFollowed&) {
  }
}

std::optional<std::string> DeviceFlow::run(std::string_view statement) {
  result_.reset();
  const std::string_view text = statement;
  const size_t start = skip_blanks(text, 0);
  const std::string_view body = text.substr(std::min(start, text.size()));
  constexpr std::string_view kNothing[] = {"else:", "try:", "finally:", "pass", "break", "continue"};
  const auto begins = [&](std::string_view word) {
    return body.starts_with(word) && (body.size() == word.size() || !word_char(body[word.size()]));
  };
  if (body.empty() || body[0] == '#' || std::ranges::find(kNothing, trimmed(body)) != std::end(kNothing))
    return std::nullopt;
  for (const std::string_view word : {"import", "from", "global", "nonlocal", "del", "raise", "except", "with", "yield",
                                      "async", "assert", "@", "match", "case"})
    if (begins(word)) return std::nullopt;
  if (only_moves(text)) {  // a module, which goes there itself
    const std::string module = std::string(body.substr(0, body.find(".to(")));
    const bool there = names.contains(module + "()") && trimmed(body).ends_with(fmt::format(".to({})", words));
    forget(module);
    if (there) names[module + "()"] = to;
  }
  const Scan scan(text);
  std::vector<std::string_view> targets;
  bool in_place = false;
  size_t value_at = start;
  const bool returns = begins("return");
  const bool conditional = begins("if") || begins("elif") || begins("while");
  if (returns || conditional) {
    value_at = start + body.find_first_of(" (\n:");
    if (value_at >= text.size()) return std::nullopt;
  } else if (!begins("for")) {
    size_t last = start;
    for (const size_t at : assignments(text, scan)) {
      size_t end = at;
      while (end > last && std::string_view("+-*/%&|^@<>").find(text[end - 1]) != std::string_view::npos) --end;
      in_place = in_place || end < at;
      std::string_view target = text.substr(last, end - last);
      const size_t colon = target.find(':');  // `x: Tensor = …`
      if (colon != target.npos && target.find('[') > colon) target = target.substr(0, colon);
      targets.push_back(target);
      last = value_at = at + 1;
    }
  }
  std::string_view read = text;
  if (conditional) {
    const size_t colon = text.find_last_not_of(" \n");
    if (colon == text.npos || text[colon] != ':') return std::nullopt;
    read = text.substr(0, colon);
  }
  if (begins("for")) {
    const size_t in = body.find(" in ");
    if (in == body.npos) return std::nullopt;
    // What it goes over may be what the fix has moved. What lies there already comes from elsewhere.
    const auto before = names;
    assign(body.substr(3, in - 3), {});
    for (const auto& [name, device] : before)
      if (device == to && !names.contains(name) && is_identifier(name)) names[name] = device;
    return std::nullopt;
  }
  FlowReader reader(*this, read, value_at);
  FlowValue value;
  bool followed = true;
  try {
    value = reader.whole();
    if (!reader.at_end()) throw NotFollowed();
  } catch (const NotFollowed&) {
    value = {};
    followed = false;
  }
  // Whatever it calls: the end of the line says where that comes to, and one that makes a tensor where it makes it.
  if (value.device.empty() && value.elements.empty() && !targets.empty() && !in_place) {
    const std::string_view code = text.substr(value_at, text.find_last_not_of(" \n") + 1 - value_at);
    const auto now = names.find(with_one_quote(trimmed(targets[0])));
    const bool there = code.ends_with(fmt::format(".to({})", words)) || keyword_argument(text, "device") == words;
    if (!words.empty() && there)
      value.device = to;
    else if (now != names.end() && makes_tensor(text) && says_device(text))
      value.device = std::string(now->second);
  }
  if (!followed) {
    for (const std::string_view target : targets) assign(target, value);
    return std::nullopt;
  }
  if (returns) result_ = value;
  if (!in_place)
    for (const std::string_view target : targets) store(text, target, value, reader.moves);
  if (in_place) {
    // What it writes to, or to a part of, stays where it is.
    std::string_view target = trimmed(targets[0]);
    if (target.ends_with(']') && !names.contains(with_one_quote(target))) target = target.substr(0, target.find('['));
    const std::string name = with_one_quote(target);
    const auto own = names.find(name);
    if (own != names.end() && !value.device.empty() && own->second != value.device)
      reader.moves.push_back({value.begin, value.end, value.compound, name + ".device"});
  } else {
    for (const std::string_view target : targets) assign(target, value);
  }
  if (reader.moves.empty()) return std::nullopt;
  std::string out(text);
  std::vector<std::pair<size_t, std::string>> insertions;
  for (const auto& move : reader.moves) {
    const std::string to_there = move.device == "cpu" ? ".cpu()" : fmt::format(".to({})", move.device);
    insertions.emplace_back(move.end, (move.compound ? ")" : "") + to_there);
    if (move.compound) insertions.emplace_back(move.begin, "(");
  }
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [place, inserted] : insertions) out.insert(place, inserted);
  return out;
}

}  // namespace devtrace::report::verdict
