// `rows = features[picked].to(device)`: the table stays on the CPU, as what is taken out of it is moved. Then it is the
// index that has come to a GPU too early.
#include <algorithm>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

// Do the methods that are called on what ends there, `.view(-1).to(device)`, take it to a GPU?
bool is_moved_behind(std::string_view source, const Scan& scan, size_t at) {
  size_t end = at;
  while (end < source.size() && source[end] == '.') {
    const size_t open = source.find('(', end), close = open == source.npos ? open : closing(scan, source, open);
    if (close == source.npos || !is_identifier(source.substr(end + 1, open - end - 1))) break;
    end = close + 1;
  }
  const std::string_view methods = source.substr(at, end - at);
  return says_device(methods) && methods.find("cpu") == methods.npos;
}

// What stands between the brackets where the line takes from `table` by `index`, and moves what it takes.
std::optional<Span> index_of_what_is_moved(std::string_view source, std::string_view table, std::string_view index) {
  const Scan scan(source);
  for (size_t at = source.find(table); at != source.npos; at = source.find(table, at + 1)) {
    const size_t open = at + table.size();
    const bool whole = at == 0 || !(word_char(source[at - 1]) || source[at - 1] == '.');
    if (!whole || open >= source.size() || source[open] != '[') continue;
    const size_t close = closing(scan, source, open);
    if (close == source.npos) return std::nullopt;
    if (reads(source.substr(open + 1, close - open - 1), index) > 0 && is_moved_behind(source, scan, close + 1))
      return Span{open + 1, close};
  }
  return std::nullopt;
}

// The index where the function has given it its name, so that whatever it is used for below has it on the CPU; or
// where it is used.
std::optional<Fix> index_to_cpu(const Frame& here, const Operand& index, std::string_view name, Span used) {
  for (const finding::Step& step : index.lineage) {
    const Frame& line = step.line;
    if (!line.same_function(here) || line.line >= here.line || assigned_name(line.source) != name) continue;
    if (auto code = move_value(line.source, "\"cpu\"")) return repair_of(line, std::move(*code));
  }
  const std::string_view source = here.source;
  const auto code = replace_read(source.substr(used.begin, used.end - used.begin), name, fmt::format("{}.cpu()", name));
  return code ? std::optional(repair_of(here, dedented(spliced(source, used, *code)))) : std::nullopt;
}

}  // namespace

std::optional<Cause> index_of_cpu_table(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own) return std::nullopt;
  const auto named = [&](const Operand& it) { return !it.is_of_state() && is_reference(it.name_in(*own)); };
  const auto index = [&](const Operand& it) { return named(it) && !it.on_cpu() && is_identifier(it.name_in(*own)); };
  // What an object further out keeps, as a scheduler its steps, may as well go with what asks for it.
  const auto is_kept = [&](const Operand& it) {
    return it.role == "attribute" || std::ranges::any_of(it.names, [&](const finding::Name& each) {
             return each.frame > *own && each.name.find('.') != each.name.npos;
           });
  };
  const auto table = [&](const Operand& it) { return named(it) && it.on_cpu() && !is_kept(it); };
  const auto pair = evidence.pair(index, table);
  if (!pair) return std::nullopt;
  const Frame& line = evidence.stack[*own];
  const std::string_view name = pair.it->name_in(*own);
  const auto used = index_of_what_is_moved(line.source, pair.other->name_in(*own), name);
  if (!used) return std::nullopt;
  return Cause{"input-not-moved", Confidence::medium,
               fmt::format("{} is meant to stay on the CPU: {} moves what it takes from that. {} came to {} before it "
                           "was used for that.",
                           with_place(*pair.other), at(&line), with_place(*pair.it), pair.it->device),
               index_to_cpu(line, *pair.it, name, *used)};
}

}  // namespace devtrace::report::verdict::rules
