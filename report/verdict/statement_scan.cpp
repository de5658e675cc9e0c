#include "report/verdict/statement_scan.h"

#include <algorithm>

namespace devtrace::report::verdict {

namespace {

bool is_assignment(std::string_view source, size_t at) {
  const char before = at > 0 ? source[at - 1] : ' ';
  const char after = at + 1 < source.size() ? source[at + 1] : ' ';
  return after != '=' && before != '=' && before != '!' && before != '<' && before != '>' && before != ':';
}

}  // namespace

Scan::Scan(std::string_view source) : code(source.size(), false), depth(source.size(), 0) {
  int level = 0;
  for (size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (c == '#') {
      while (at < source.size() && source[at] != '\n') depth[at++] = level;
      continue;
    }
    if (c == '"' || c == '\'') {
      at = skip_literal(source, at, level);
      continue;
    }
    if (c == ')' || c == ']' || c == '}') --level;
    code[at] = true;
    depth[at] = level;
    if (c == '(' || c == '[' || c == '{') ++level;
    if (c == '=' && level == 0 && is_assignment(source, at)) value_begins = at + 1;
    ++at;
  }
  balanced = balanced && level == 0;
}

size_t Scan::skip_literal(std::string_view source, size_t at, int level) {
  const char quote = source[at];
  const bool triple = source.substr(at, 3) == std::string(3, quote);
  const size_t width = triple ? 3 : 1;
  size_t end = at + width;
  while (end < source.size() && source.substr(end, width) != std::string(width, quote))
    end += source[end] == '\\' ? 2 : 1;
  if (end >= source.size()) balanced = false;
  end = std::min(end + width, source.size());
  for (size_t inside = at; inside < end; ++inside) depth[inside] = level;
  return end;
}

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

std::string with_one_quote(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\'', '"');
  return out;
}

size_t skip_blanks(std::string_view source, size_t at) {
  while (at < source.size() && (source[at] == ' ' || source[at] == '\t' || source[at] == '\n' || source[at] == '\\'))
    ++at;
  return at;
}

size_t closing(const Scan& scan, std::string_view source, size_t open) {
  for (size_t at = open + 1; at < source.size(); ++at) {
    if (scan.code[at] && scan.depth[at] == scan.depth[open] &&
        (source[at] == ')' || source[at] == ']' || source[at] == '}'))
      return at;
  }
  return source.npos;
}

std::optional<Call> only_call(std::string_view source, const Scan& scan, std::string_view function) {
  const std::string wanted = std::string(function) + "(";
  const size_t at = source.find(wanted);
  if (at == source.npos || source.find(wanted, at + 1) != source.npos || !scan.balanced || !scan.code[at] ||
      (at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')))
    return std::nullopt;
  const size_t open = at + function.size(), close = closing(scan, source, open);
  if (close == source.npos) return std::nullopt;
  return Call{at, open, close};
}

std::vector<Span> arguments(std::string_view source, const Scan& scan, const Call& call) {
  constexpr std::string_view kLambda = "lambda";
  std::vector<Span> spans;
  size_t begin = call.open + 1;
  int lambdas = 0;  // whose parameters are being named: their commas part no arguments
  for (size_t at = begin; at <= call.close; ++at) {
    const bool own = scan.code[at] && scan.depth[at] == scan.depth[call.open] + 1;
    if (own && source.substr(at, kLambda.size()) == kLambda && !word_char(source[at - 1]) &&
        !word_char(source[at + kLambda.size()]))
      ++lambdas;
    if (own && source[at] == ':' && lambdas > 0) --lambdas;
    if (at != call.close && !(own && source[at] == ',' && lambdas == 0)) continue;
    if (!trimmed(source.substr(begin, at - begin)).empty()) spans.push_back({begin, at});
    begin = at + 1;
  }
  return spans;
}

std::optional<Span> keyword_value(std::string_view source, const std::vector<Span>& spans, std::string_view key) {
  for (const Span& span : spans) {
    const size_t begin = skip_blanks(source, span.begin);
    if (source.substr(begin, key.size()) != key) continue;
    const size_t equals = skip_blanks(source, begin + key.size());
    if (equals < span.end && source[equals] == '=') {
      const size_t value = skip_blanks(source, equals + 1);
      return Span{value, value + trimmed(source.substr(value, span.end - value)).size()};
    }
  }
  return std::nullopt;
}

std::string spliced(std::string_view source, Span span, std::string_view by) {
  return std::string(source.substr(0, span.begin)).append(by).append(source.substr(span.end));
}

}  // namespace devtrace::report::verdict
