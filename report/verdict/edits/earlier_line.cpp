#include "report/verdict/edits/earlier_line.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
bool is_definition(std::string_view text) {
  return text.starts_with("def ") || text.starts_with("async def ") || text.starts_with("class ");
}

namespace {

// What it was computed from as well.
void for_each_source(const Operand& operand, const std::function<void(const Operand&)>& visit) {
  visit(operand);
  for (const Operand& source : operand.computed_from) for_each_source(source, visit);
}

std::string device_of_module(std::string_view module, const Operand& state) {
  return fmt::format("next({}.{}()).device", module, state.role == "buffer" ? "buffers" : "parameters");
}

// What said where something was put that lies there: in the same function it is said the same way.
std::optional<std::string> said_for_another(const Frame& line, const Operand& there) {
  const finding::DeviceSource& from = there.device_from;
  const Event* placed = there.placed();
  if (from.name.empty() || !placed || !placed->line() || !placed->line()->same_function(line)) return std::nullopt;
  if (from.says.empty() || !is_reference(from.name)) return std::nullopt;
  const bool attribute = from.name.starts_with("self.") && !line.function.ends_with("__init__");
  if (!attribute && from.role != "argument" && !bound_above(line, variable_of(from.name))) return std::nullopt;
  return from.name;
}

// Has a line got the variable its value that stands between that line and the one that runs here?
bool bound_between(const Frame& line, const Frame& here, std::string_view variable) {
  return std::ranges::any_of(statements_around(line), [&](const auto& each) {
    const auto& [number, text] = each;
    if (number <= line.line || number >= here.line) return false;
    const std::string_view statement = trimmed(text);
    const size_t targets = statement.starts_with("for ") ? statement.find(" in ") : statement.find(" = ");
    return targets != statement.npos && find_variable(statement.substr(0, targets), variable) != statement.npos;
  });
}

// What a frame of the same function that still runs has had since before that line.
std::optional<std::string> still_there(const Evidence& evidence, const Frame& line, const Operand& there) {
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    const Frame& here = evidence.stack[frame];
    if (!here.same_function(line) || here.line <= line.line || !there_before(there, here, line)) continue;
    if (!there.placed()) continue;
    if (there.is_state()) {
      const std::string_view module = module_in(frame, there);
      if (!module.empty()) return device_of_module(module, there);
      continue;
    }
    const std::string_view name = there.name_in(frame);
    if (is_identifier(name) && !bound_between(line, here, name)) return fmt::format("{}.device", name);
  }
  return std::nullopt;
}

// What the lines below give the same object to: `model.load_state_dict(saved["model"])`, where some frame has a module
// or an optimizer of that name.
std::optional<std::string> of_who_takes_it(const Evidence& evidence, const Frame& line) {
  std::optional<std::string> device;
  for (const auto& [number, text] : statements_around(line)) {
    constexpr std::string_view kTakes = ".load_state_dict(";
    const size_t call = text.find(kTakes);
    if (device || number <= line.line || call == text.npos) continue;
    const std::string_view taker = trimmed(text.substr(0, call));
    if (!is_identifier(taker) || !bound_above(line, taker)) continue;
    const auto visit = [&](const Operand& each) {
      for (const Chain& chain : each.held_by) {
        for (const Holder& holder : chain.holders) {
          if (device || holder.name != taker) continue;
          if (holder.is_module() && each.is_state()) device = device_of_module(taker, each);
          if (holder.kind == "optimizer") device = fmt::format("{}.param_groups[0][\"params\"][0].device", taker);
        }
      }
    };
    for (const Operand& operand : evidence.operands) for_each_source(operand, visit);
  }
  return device;
}

// Is nothing that the move names bound between the two lines, as far as the lines around the move show all of them?
bool may_stand_earlier(const Frame& made, const Frame& moved) {
  if (moved.around.line == 0 || moved.around.line > made.line) return false;
  for (const auto& [number, text] : statements_around(moved)) {
    if (number <= made.line || number >= moved.line) continue;
    const Scan scan(text);
    if (scan.value_begins == 0) continue;
    const std::string_view target = trimmed(text.substr(0, text.find('=')));
    if (find_variable(moved.source, variable_of(target)) != moved.source.npos) return false;
  }
  return true;
}

}  // namespace

size_t find_variable(std::string_view text, std::string_view variable) {
  if (variable.empty()) return text.npos;
  const Scan scan(text);
  for (size_t at = 0; (at = text.find(variable, at)) != text.npos; at += variable.size()) {
    const size_t end = at + variable.size();
    const bool whole =
        (at == 0 || (!word_char(text[at - 1]) && text[at - 1] != '.')) && (end >= text.size() || !word_char(text[end]));
    if (whole && scan.code[at]) return at;
  }
  return text.npos;
}

std::string_view variable_of(std::string_view expression) {
  size_t end = 0;
  while (end < expression.size() && word_char(expression[end])) ++end;
  return expression.substr(0, end);
}

std::string_view module_in(size_t frame, const Operand& state) {
  for (const Chain& chain : state.held_by)
    if (chain.frame == frame && !chain.holders.empty() && chain.holders[0].registers() &&
        is_reference(chain.holders[0].name))
      return chain.holders[0].name;
  const std::string_view path = state.module_path;
  if (path.empty()) return {};
  // A loop over parameters has a variable of its own for it.
  for (const finding::Name& each : state.names) {
    const std::string_view name = each.name;
    if (each.frame != frame || !name.ends_with(path) || name.size() <= path.size() + 1) continue;
    const std::string_view module = name.substr(0, name.size() - path.size() - 1);
    if (is_reference(module)) return module;
  }
  return {};
}

std::vector<std::string_view> modules_in(size_t frame, const Operand& state) {
  std::vector<std::string_view> found;
  for (const finding::Name& each : state.names)
    for (size_t dot = each.name.find('.'); each.frame == frame && dot != each.name.npos;
         dot = each.name.find('.', dot + 1)) {
      const std::string_view module = std::string_view(each.name).substr(0, dot);
      if (is_reference(module)) found.push_back(module);
    }
  return found;
}

std::vector<std::pair<int64_t, std::string_view>> statements_around(const Frame& line) {
  constexpr int kMostLines = 20;
  std::vector<std::pair<int64_t, std::string_view>> found;
  int64_t number = line.around.line;
  for (std::string_view rest = line.around.text; !rest.empty();) {
    const size_t first = std::min(rest.find('\n'), rest.size());
    size_t end = first;
    int lines = 1;
    bool open = Scan(rest.substr(0, end)).open > 0;
    for (; open && end < rest.size() && lines < kMostLines; ++lines) {
      end = std::min(rest.find('\n', end + 1), rest.size());
      open = Scan(rest.substr(0, end)).open > 0;
    }
    if (open) end = first, lines = 1;  // a bracket that is not closed may be one of a text's
    found.emplace_back(number, rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
    number += lines;
  }
  return found;
}

std::vector<std::pair<int64_t, std::string>> statements_below(const Frame& here, int64_t line) {
  std::vector<std::pair<int64_t, std::string>> found;
  size_t depth = std::string::npos;
  for (const auto& [number, text] : statements_around(here)) {
    if (number == line) depth = indentation(text);
    if (number <= line || depth == std::string::npos || trimmed(text).empty()) continue;
    if (indentation(text) < depth && is_definition(trimmed(text))) break;
    if (Scan(text).balanced) found.emplace_back(number, text);
  }
  return found;
}

bool bound_above(const Frame& line, std::string_view variable) {
  if (variable.empty()) return false;
  const auto lines = statements_around(line);
  const auto own = std::find_if(lines.begin(), lines.end(), [&](const auto& each) { return each.first == line.line; });
  if (own == lines.end()) return false;
  size_t deepest = indentation(own->second);
  for (auto each = std::make_reverse_iterator(own); each != lines.rend(); ++each) {
    const std::string_view text = each->second;
    if (trimmed(text).empty()) continue;
    const bool defines = is_definition(trimmed(text)) && indentation(text) < deepest;
    if (indentation(text) > deepest) continue;
    if (find_variable(text, variable) != text.npos) return true;
    if (defines) return false;
    deepest = std::min(deepest, indentation(text));
  }
  return false;
}

bool named_before(const Evidence& evidence, size_t frame, const Operand& operand, const Frame& line) {
  const Frame& here = evidence.stack[frame];
  return there_before(operand, here, line) && !bound_between(line, here, variable_of(operand.name_in(frame)));
}

std::optional<Frame> assigned_above(const Frame& line, std::string_view variable) {
  const auto depth_of = [](std::string_view text) { return std::min(text.find_first_not_of(' '), text.size()); };
  std::optional<Frame> found;
  size_t depth = 0;
  for (const auto& [number, text] : statements_around(line))
    if (number == line.line) depth = depth_of(text);
  for (const auto& [number, text] : statements_around(line)) {
    if (number >= line.line) break;
    if (is_definition(trimmed(text))) found.reset();
    if (depth_of(text) > depth || assigned_name(trimmed(text)) != variable) continue;
    found = line;
    found->line = number;
    found->source = dedented(text);
  }
  return found;
}

std::optional<std::string> device_in_earlier_line(const Evidence& evidence, const Frame& line, const Operand& target) {
  std::optional<std::string> device;
  const auto look = [&](const Operand& there) {
    if (device || there.device != target.device) return;
    device = said_for_another(line, there);
    if (!device) device = still_there(evidence, line, there);
  };
  for_each_source(target, look);
  for (const Operand& other : evidence.operands) for_each_source(other, look);
  return device ? device : of_who_takes_it(evidence, line);
}

std::optional<Fix> move_before_making(const Event& made, const Event& moved) {
  const Stack &first = made.stack, &second = moved.stack;
  for (size_t outside = 1; outside <= std::min(first.size(), second.size()); ++outside) {
    const Frame &making = first[first.size() - outside], &move = second[second.size() - outside];
    if (making.same_line(move)) continue;
    if (!making.same_function(move) || making.line >= move.line || !making.project) return std::nullopt;
    Fix fix = repair_of(making, {});
    const std::string statement = dedented(move.source);
    if (only_moves(statement) && making.source.find('\n') == std::string::npos && may_stand_earlier(making, move))
      fix.code = fmt::format("{}\n{}", statement, dedented(making.source));
    return fix;
  }
  return std::nullopt;
}

// Of a line that names no device: where the model lies that it loads into, `network.load_state_dict(torch.load(file))`.
static std::string device_of_loaded(std::string_view source, std::string device) {
  constexpr std::string_view kLoads = ".load_state_dict(torch.load(";
  const std::string_view statement = trimmed(source);
  const size_t at = statement.find(kLoads);
  if (!device.starts_with('"') || at == statement.npos || !is_reference(statement.substr(0, at))) return device;
  return fmt::format("next({}.parameters()).device", statement.substr(0, at));
}

std::optional<Fix> load_where(const Evidence& evidence, const Frame& load, const Operand& target) {
  const std::string device =
      device_in_earlier_line(evidence, load, target)
          .value_or(device_of_loaded(load.source, expression_or_number(evidence, load, target.device)));
  auto code = give_map_location(load.source, device);
  if (!code) return std::nullopt;
  return repair_of(load, std::move(*code));
}

const Frame* line_that_read(const Operand& it) {
  const Event* placed = it.placed();
  if (!placed) return nullptr;
  const auto reads_files = [](const Frame& frame) {
    return frame.file.ends_with("/torch/serialization.py") && frame.function.find("load") != frame.function.npos;
  };
  const bool read = std::any_of(placed->stack.begin(), placed->stack.end(), reads_files);
  return read && placed->line() && placed->line()->project ? placed->line() : nullptr;
}

const Frame* line_of_load(const Operand& it) {
  return it.is_of_state() ? nullptr : line_that_read(it);
}

bool in_one_function(const std::vector<std::pair<int64_t, std::string_view>>& lines, int64_t one, int64_t other) {
  return std::ranges::none_of(lines, [&](const auto& each) {
    const auto& [number, text] = each;
    return number > std::min(one, other) && number < std::max(one, other) && is_definition(trimmed(text));
  });
}

}  // namespace devtrace::report::verdict
