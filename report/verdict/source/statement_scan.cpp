#include "report/verdict/source/statement_scan.h"

#include <algorithm>

namespace devtrace::report::verdict {

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

Span element_before(std::string_view source, const Scan& scan, size_t loop) {
  size_t begin = loop;
  const auto is_inside = [&](size_t at) {
    return scan.depth[at] > scan.depth[loop] || (scan.depth[at] == scan.depth[loop] && source[at] != ':');
  };
  while (begin > 0 && is_inside(begin - 1)) --begin;
  begin = skip_blanks(source, begin);
  return {begin, begin + trimmed(source.substr(begin, loop - begin)).size()};
}

std::optional<Call> only_call_in(std::string_view source, const Scan& scan, std::string_view function) {
  const std::string wanted = std::string(function) + "(";
  const size_t at = source.find(wanted);
  if (at == source.npos || source.find(wanted, at + 1) != source.npos || !scan.balanced || !scan.code[at] ||
      (at > 0 && word_char(source[at - 1])))
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

size_t end_of_arguments(std::string_view source, const std::vector<Span>& spans) {
  const std::string_view last = source.substr(spans.back().begin, spans.back().end - spans.back().begin);
  return spans.back().begin + (last.find_last_not_of(" \t\n\\") + 1);
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
