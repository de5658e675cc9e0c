#include "report/phrasing/cpp_source.h"

#include <algorithm>
#include <cctype>

#include "common/text.h"
#include "report/phrasing/cpp_text.h"
#include "report/phrasing/signature.h"

namespace devtrace::report {
namespace {

// Behind template arguments that begin at `open`; npos where it is a comparison.
size_t behind_angles(std::string_view code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '<') ++depth;
    if (code[i] == '>' && --depth == 0) return i + 1;
    if (code[i] == ';' || code[i] == '&' || code[i] == '|') return code.npos;
  }
  return code.npos;
}

// Where an expression that ends at `end` begins: names, `::`, `.`, `->`, calls and subscripts.
size_t begin_of_primary(std::string_view code, size_t end) {
  size_t at = end;
  for (;;) {
    while (at > 0 && is_blank(code[at - 1])) --at;
    if (at > 0 && (code[at - 1] == ')' || code[at - 1] == ']')) {
      int depth = 0;
      while (at > 0) {
        --at;
        if (code[at] == ')' || code[at] == ']') ++depth;
        if ((code[at] == '(' || code[at] == '[') && --depth == 0) break;
      }
      if (at == 0 || !(is_word(code[at - 1]) || code[at - 1] == ')' || code[at - 1] == ']' || code[at - 1] == '>'))
        return at;  // brackets around an expression
      continue;
    }
    const size_t word_end = at;
    while (at > 0 && is_word(code[at - 1])) --at;
    if (at == word_end) return word_end;
    size_t before = at;
    while (before > 0 && is_blank(code[before - 1])) --before;
    if (before > 1 && (code.substr(before - 2, 2) == "::" || code.substr(before - 2, 2) == "->"))
      at = before - 2;
    else if (before > 0 && code[before - 1] == '.')
      at = before - 1;
    else
      return at;
  }
}

std::optional<CppCall> call_at(std::string_view text, std::string_view code, size_t at, size_t length) {
  CppCall call;
  size_t next = skip_blanks(code, at + length);
  if (code.substr(next).starts_with("<<<")) {
    const size_t close = code.find(">>>", next);
    if (close == code.npos) return std::nullopt;
    call.configuration = trimmed(text.substr(next + 3, close - next - 3));
    next = skip_blanks(code, close + 3);
  } else if (next < code.size() && code[next] == '<') {
    next = behind_angles(code, next);
    if (next == code.npos) return std::nullopt;
    next = skip_blanks(code, next);
    if (code.substr(next).starts_with("<<<")) {
      const size_t close = code.find(">>>", next);
      if (close == code.npos) return std::nullopt;
      call.configuration = trimmed(text.substr(next + 3, close - next - 3));
      next = skip_blanks(code, close + 3);
    }
  }
  if (next >= code.size() || code[next] != '(') return std::nullopt;
  call.end = behind_bracket(code, next);
  if (call.end == code.npos) return std::nullopt;
  call.arguments = split_arguments(text.substr(next + 1, call.end - next - 2));
  call.begin = at;
  size_t before = at;
  while (before > 0 && is_blank(code[before - 1])) --before;
  const bool arrow = before > 1 && code.substr(before - 2, 2) == "->";
  if (arrow || (before > 0 && code[before - 1] == '.')) {
    const size_t end = before - (arrow ? 2 : 1);
    call.begin = begin_of_primary(code, end);
    call.receiver = trimmed(text.substr(call.begin, end - call.begin));
    if (call.receiver.empty()) return std::nullopt;
  } else if (before > 1 && code.substr(before - 2, 2) == "::") {
    call.begin = begin_of_primary(code, at + length);
  }
  return call;
}

}  // namespace

std::optional<CppCall> only_call(std::string_view statement, std::string_view name) {
  if (name.empty()) return std::nullopt;
  const std::string code = code_of(statement);
  std::optional<CppCall> found;
  for (size_t at = 0; (at = code.find(name, at)) != code.npos; at += name.size()) {
    if ((at > 0 && is_word(code[at - 1])) || (at + name.size() < code.size() && is_word(code[at + name.size()])))
      continue;
    auto call = call_at(statement, code, at, name.size());
    if (!call) continue;
    if (found) return std::nullopt;
    found = std::move(call);
  }
  return found;
}

std::optional<CppCall> only_operator(std::string_view statement, std::string_view symbol) {
  const std::string code = code_of(statement);
  constexpr std::string_view kSigns = "+-*/%<>=!&|^";
  std::optional<size_t> place;
  for (size_t at = 0; (at = code.find(symbol, at)) != code.npos; at += symbol.size()) {
    const auto sign = [&](size_t i) { return i < code.size() && kSigns.find(code[i]) != kSigns.npos; };
    if ((at > 0 && sign(at - 1)) || sign(at + symbol.size())) continue;
    // Without an expression before it, it is a sign; an angle without blanks is a template's, a star a pointer's.
    size_t before = at;
    while (before > 0 && is_blank(code[before - 1])) --before;
    if (before == 0 || !(is_word(code[before - 1]) || code[before - 1] == ')' || code[before - 1] == ']')) continue;
    if (code.substr(0, before).ends_with("operator")) continue;  // the function's own name
    if ((symbol == "<" || symbol == ">" || symbol == "*" || symbol == "&") && before == at) continue;
    if (place) return std::nullopt;
    place = at;
  }
  if (!place) return std::nullopt;
  CppCall call;
  call.begin = begin_of_primary(code, *place);
  size_t end = skip_blanks(code, *place + symbol.size());
  // The primary expression at the right: names, calls, subscripts.
  const size_t start = end;
  while (end < code.size()) {
    if (is_word(code[end]))
      ++end;
    else if (code.compare(end, 2, "::") == 0 || code.compare(end, 2, "->") == 0)
      end += 2;
    else if (code[end] == '.')
      ++end;
    else if (code[end] == '(' || code[end] == '[') {
      const size_t behind = behind_bracket(code, end);
      if (behind == code.npos) return std::nullopt;
      end = behind;
    } else
      break;
  }
  call.end = end;
  call.arguments = {trimmed(statement.substr(call.begin, *place - call.begin)),
                    trimmed(statement.substr(start, end - start))};
  for (const std::string_view side : call.arguments)
    if (side.empty() || side == "return") return std::nullopt;
  return call;
}

std::optional<std::vector<std::string_view>> operator_arguments(std::string_view statement,
                                                                std::string_view operation) {
  struct Sign {
    std::string_view operation, text;
  };
  constexpr Sign kSigns[] = {
      {"add", "+"},   {"sub", "-"},   {"mul", "*"},   {"div", "/"},         {"remainder", "%"},  {"add_", "+="},
      {"sub_", "-="}, {"mul_", "*="}, {"div_", "/="}, {"lt", "<"},          {"gt", ">"},         {"le", "<="},
      {"ge", ">="},   {"eq", "=="},   {"ne", "!="},   {"bitwise_and", "&"}, {"bitwise_or", "|"}, {"bitwise_xor", "^"},
  };
  if (const auto call = only_call(statement, operation)) {
    std::vector<std::string_view> all;
    if (!call->receiver.empty()) all.push_back(call->receiver);
    all.insert(all.end(), call->arguments.begin(), call->arguments.end());
    return all;
  }
  // What is written to stands first in these, and last in the operator's order.
  if (auto call = only_call(statement, std::string(operation) + "_out"); call && call->arguments.size() > 1) {
    std::rotate(call->arguments.begin(), call->arguments.begin() + 1, call->arguments.end());
    return call->arguments;
  }
  for (const Sign& sign : kSigns)
    if (sign.operation == operation)
      if (const auto sides = only_operator(statement, sign.text)) return sides->arguments;
  return std::nullopt;
}

bool calls(std::string_view text, std::string_view name) {
  constexpr std::string_view kOperator = "operator";
  if (name.empty()) return false;
  if (name.starts_with(kOperator)) return code_of(text).find(name.substr(kOperator.size())) != std::string::npos;
  const std::string code = code_of(text);
  for (size_t at = 0; (at = code.find(name, at)) != code.npos; at += name.size()) {
    if (at > 0 && is_word(code[at - 1])) continue;
    if (call_at(text, code, at, name.size())) return true;
  }
  return false;
}

std::string_view name_of_parameter(std::string_view declaration) {
  declaration = trimmed(declaration.substr(0, declaration.find('=')));
  while (declaration.ends_with(']')) declaration = trimmed(declaration.substr(0, declaration.rfind('[')));
  size_t begin = declaration.size();
  while (begin > 0 && is_word(declaration[begin - 1])) --begin;
  const std::string_view name = declaration.substr(begin);
  const std::string_view type = trimmed(declaration.substr(0, begin));
  constexpr std::string_view kTypes[] = {"int", "char", "long", "short", "float", "double", "bool"};
  const bool is_type = std::find(std::begin(kTypes), std::end(kTypes), name) != std::end(kTypes);
  if (name.empty() || type.empty() || type.ends_with("::") || type == "const" || is_type) return {};
  return name;
}

LineShape shape_of(std::string_view line) {
  const std::string code = code_of(line);
  LineShape shape;
  for (const char c : code) {
    if (c == '{') ++shape.braces;
    if (c == '}') --shape.braces;
    if (c == '(' || c == '[') ++shape.open;
    if (c == ')' || c == ']') --shape.open;
  }
  const size_t last = code.find_last_not_of(" \t\r\n");
  shape.ends = last == code.npos || code[last] == ';' || code[last] == '{' || code[last] == '}';
  shape.is_statement = last != code.npos && code[last] == ';';
  return shape;
}

}  // namespace devtrace::report
