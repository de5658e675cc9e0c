#include "report/verdict/source/source_line.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/text.h"
#include "common/torch_functions.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

// Attributes that ask about a tensor and do not use its values.
bool only_metadata(std::string_view source, size_t dot) {
  size_t end = dot + 1;
  while (end < source.size() && word_char(source[end])) ++end;
  const std::string_view attribute = source.substr(dot + 1, end - dot - 1);
  for (const std::string_view each :
       {"device", "dtype", "shape", "size", "dim", "ndim", "numel", "is_cuda", "layout", "requires_grad"}) {
    if (attribute == each) return true;
  }
  return false;
}

// Is the name that begins here bound by a loop or a comprehension: `for name, x in …`?
bool is_loop_target(std::string_view source, size_t at) {
  for (bool comma = true;; comma = false) {  // between two targets there is one
    while (at > 0 && (source[at - 1] == ' ' || source[at - 1] == '(' || source[at - 1] == ','))
      comma = source[--at] == ',' || comma;
    size_t begin = at;
    while (begin > 0 && word_char(source[begin - 1])) --begin;
    const std::string_view word = source.substr(begin, at - begin);
    if (word == "for") return true;
    if (word.empty() || !comma || at == 0) return false;
    if (word == "in" || word == "if" || word == "else" || word == "return") return false;
    if (source.substr(at, 1) != "," && source.substr(skip_blanks(source, at), 1) != ",") return false;
    at = begin;
  }
}

// Is the name that begins here a parameter: `lambda name, x=1: …`? What follows a `=` there is read.
bool is_lambda_parameter(std::string_view source, const Scan& scan, size_t at) {
  constexpr std::string_view kLambda = "lambda";
  for (size_t begin = 0; (begin = source.find(kLambda, begin)) < at; begin += kLambda.size()) {
    const size_t end = begin + kLambda.size();
    if (!scan.code[begin] || (begin > 0 && word_char(source[begin - 1])) || word_char(source[end])) continue;
    size_t colon = end;
    while (colon < source.size() &&
           !(source[colon] == ':' && scan.code[colon] && scan.depth[colon] <= scan.depth[begin]))
      ++colon;
    const size_t before = source.find_last_not_of(' ', at - 1);
    if (at < colon && source[before] != '=') return true;
  }
  return false;
}

// Where the expression is read, as positions in the source.
std::vector<size_t> find_reads(std::string_view source, std::string_view name) {
  std::vector<size_t> found;
  if (name.empty()) return found;
  const Scan scan(source);
  const std::string haystack = with_one_quote(source), needle = with_one_quote(name);
  for (size_t at = 0; (at = haystack.find(needle, at)) != haystack.npos; ++at) {
    const size_t end = at + needle.size();
    if (!scan.code[at]) continue;
    if (at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) continue;
    if (end < source.size() && word_char(source[end]) && word_char(name.back())) continue;
    const size_t next = skip_blanks(source, end);
    const char follows = next < source.size() ? source[next] : '\0';
    const bool equals = follows == '=' && (next + 1 >= source.size() || source[next + 1] != '=');
    if (equals && scan.depth[at] > 0) continue;                   // a keyword argument's name
    if (at < scan.value_begins && scan.depth[at] == 0) continue;  // the target of an assignment
    if (source.substr(next).starts_with(":=")) continue;
    if (is_loop_target(source, at) || is_lambda_parameter(source, scan, at)) continue;
    if (follows == '.' && only_metadata(source, next)) continue;
    found.push_back(at);
  }
  return found;
}

bool is_any(std::string_view source, size_t at, std::string_view characters) {
  return at < source.size() && characters.find(source[at]) != characters.npos;
}

// `x += y`: what stands at the beginning of a statement is the result of an operation in place.
bool is_result_in_place(std::string_view source, std::string_view name) {
  const std::string_view statement = trimmed(source);
  if (!statement.starts_with(name)) return false;
  const std::string_view rest = statement.substr(std::min(skip_blanks(statement, name.size()), statement.size()));
  const size_t equals = rest.find('=');
  return equals != rest.npos && equals > 0 && rest.find_first_not_of("+-*/%&|^@<>") == equals &&
         rest.substr(equals, 2) != "==" && (equals > 1 || (rest[0] != '<' && rest[0] != '>'));
}

// Does a method that writes in place, or an assignment to elements, hang on the expression that ends here?
bool written_through(std::string_view source, size_t end) {
  constexpr std::string_view kItself = ".data.";
  if (source.substr(end).starts_with(kItself)) end += kItself.size() - 1;
  const size_t dot = skip_blanks(source, end);
  if (dot >= source.size() || source[dot] != '.') return false;
  size_t stop = dot + 1;
  while (stop < source.size() && word_char(source[stop])) ++stop;
  return stop < source.size() && source[stop] == '(' && source[stop - 1] == '_' && source.substr(dot + 1, 2) != "__";
}

// Of a call: `out = x` gives a variable its value.
bool is_keyword_value(std::string_view source, size_t at, std::string_view keyword) {
  if (Scan(source).depth[at] == 0) return false;
  while (at > 0 && source[at - 1] == ' ') --at;
  if (at == 0 || source[at - 1] != '=') return false;
  --at;
  while (at > 0 && source[at - 1] == ' ') --at;
  const std::string_view before = source.substr(0, at);
  return before.ends_with(keyword) && (at == keyword.size() || !word_char(before[at - keyword.size() - 1]));
}

}  // namespace

bool is_identifier(std::string_view name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), word_char);
}

bool is_reference(std::string_view name) {
  const Scan scan(name);
  if (name.empty() || !scan.balanced || std::isdigit(static_cast<unsigned char>(name.front()))) return false;
  for (size_t at = 0; at < name.size(); ++at) {
    const char c = name[at];
    if (scan.depth[at] > 0 || !scan.code[at]) continue;
    if (!word_char(c) && c != '.' && c != '[' && c != ']') return false;
    // A path of modules that Python would not read: `self.layers.0.weight`.
    if (c == '.' && at + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[at + 1]))) return false;
  }
  return word_char(name.front()) && name.back() != '.';
}

bool is_call(std::string_view name) {
  return name.find('(') != name.npos;
}

std::string_view container_of(std::string_view name) {
  const size_t bracket = name.find('[');
  return bracket == name.npos ? std::string_view() : name.substr(0, bracket);
}

int reads(std::string_view source, std::string_view name) {
  return static_cast<int>(find_reads(source, name).size());
}

bool binds(std::string_view source, std::string_view name) {
  const Scan scan(source);
  for (size_t at = 0; (at = source.find(name, at)) != source.npos; ++at) {
    const size_t end = at + name.size();
    if (!scan.code[at] || (at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.'))) continue;
    if (end < source.size() && word_char(source[end])) continue;
    const bool walrus = source.substr(skip_blanks(source, end)).starts_with(":=");
    if (walrus || is_loop_target(source, at) || is_lambda_parameter(source, scan, at)) return true;
  }
  return false;
}

bool writes_through(std::string_view source, std::string_view name) {
  if (is_result_in_place(source, name)) return true;
  for (const size_t at : find_reads(source, name)) {
    if (written_through(source, at + name.size()) || is_keyword_value(source, at, "out")) return true;
  }
  return false;
}

bool is_term(std::string_view source, std::string_view name) {
  constexpr std::string_view kOperators = "+-*/@";
  const auto found = find_reads(source, name);
  if (found.size() != 1) return false;
  const size_t before = source.find_last_not_of(' ', found[0] - 1), after = skip_blanks(source, found[0] + name.size());
  const bool unpacked = found[0] > 0 && source[found[0] - 1] == '*' && source.substr(before - (before > 0), 2) != " *";
  return is_any(source, after, kOperators) || (found[0] > 0 && !unpacked && is_any(source, before, kOperators));
}

bool is_argument_beside(std::string_view source, std::string_view name, std::string_view other) {
  const auto found = find_reads(source, name), others = find_reads(source, other);
  const Scan scan(source);
  const auto bracket = [&](size_t at) {
    size_t open = at;
    while (open > 0 && scan.depth[open - 1] >= scan.depth[at]) --open;
    return open;  // just behind it
  };
  return std::any_of(found.begin(), found.end(), [&](size_t at) {
    const size_t open = bracket(at), after = skip_blanks(source, at + name.size());
    const size_t before = source.find_last_not_of(" \n", at - 1);
    return scan.depth[at] > 0 && is_any(source, open - 1, "(") && is_any(source, before, "(,=") &&
           is_any(source, after, ",)") &&
           std::any_of(others.begin(), others.end(), [&](size_t it) { return open == bracket(it); });
  });
}

namespace {

// The one place where the source has that expression, whose words the evidence has on one line. Nothing where there are
// several.
std::optional<Span> only_place(std::string_view source, std::string_view expression) {
  std::optional<Span> found;
  for (size_t begin = 0; !expression.empty() && begin < source.size(); ++begin) {
    size_t end = begin, at = 0;
    for (; at < expression.size() && end < source.size(); ++at) {
      const size_t behind = std::min(source.find_first_not_of(" \n\t", end), source.size());
      const bool breaks = source.substr(end, behind - end).find('\n') != source.npos;
      if (at > 0 && breaks && expression[at] != ' ') end = behind;
      if (expression[at] == ' ' && is_any(source, end, " \n\t"))
        end = behind;
      else if (end >= source.size() || source[end++] != expression[at])
        break;
    }
    if (at < expression.size()) continue;
    if (found) return std::nullopt;
    found = Span{begin, end};
  }
  return found;
}

// Where the moves end that hang on what ends at `end`: `.to(device).cpu()`.
size_t behind_moves(std::string_view source, const Scan& scan, size_t end) {
  for (;;) {
    size_t at = end;
    for (const std::string_view move : {".to(", ".cuda(", ".cpu("})
      if (source.substr(end).starts_with(move)) at = end + move.size();
    if (at == end) return end;
    for (int open = 1; open > 0 && at < source.size(); ++at)
      if (scan.code[at]) open += (source[at] == '(') - (source[at] == ')');
    end = at;
  }
}

}  // namespace

std::optional<std::string> replace_read(std::string_view source, std::string_view name, std::string_view by) {
  const auto found = find_reads(source, name);
  if (found.size() != 1) return std::nullopt;
  const Scan scan(source);
  const size_t end = found[0] + name.size();
  if (!scan.balanced || writes_through(source, name)) return std::nullopt;
  // A move that hangs on it already would take it back: another one goes behind that.
  if (by.starts_with(std::string(name) + ".to("))
    if (const size_t behind = behind_moves(source, scan, end); behind != end)
      return dedented(spliced(source, {behind, behind}, by.substr(name.size())));
  return dedented(spliced(source, {found[0], end}, by));
}

std::optional<std::string> move_expression(std::string_view source, std::string_view words, std::string_view device) {
  const Scan scan(source);
  const auto place = only_place(source, words);
  if (!place || !scan.balanced) return std::nullopt;
  const auto [at, end] = *place;
  const std::string_view expression = source.substr(at, end - at);
  if (!scan.code[at] || (at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) ||
      (end < source.size() && word_char(source[end])))
    return std::nullopt;
  // What a call, an attribute or an index hangs on already would be taken apart.
  const size_t next = skip_blanks(source, end);
  if (next < source.size() && (source[next] == '(' || source[next] == '[' || source[next] == '.')) return std::nullopt;
  const Scan inside(expression);
  bool one_piece = inside.balanced;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (inside.code[i] && inside.depth[i] == 0 && !word_char(c) && c != '.' && std::string_view("()[]").find(c) > 3)
      one_piece = false;
  }
  const char* open = one_piece ? "" : "(";
  const char* close = one_piece ? "" : ")";
  return dedented(spliced(
      source, {at, end}, std::string(open).append(expression).append(close).append(".to(").append(device).append(")")));
}

std::optional<std::string> replace_expression(std::string_view source, std::string_view words, std::string_view by) {
  const Scan scan(source);
  const auto place = only_place(source, words);
  if (!place) return std::nullopt;
  const auto [at, end] = *place;
  const std::string_view expression = source.substr(at, end - at);
  const Scan inside(expression);
  if (!scan.balanced || !inside.balanced || !scan.code[at]) return std::nullopt;
  if ((at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) ||
      (end < source.size() && word_char(source[end]) && word_char(expression.back())))
    return std::nullopt;
  for (size_t i = 0; i < expression.size(); ++i)
    if (inside.code[i] && inside.depth[i] == 0 && !word_char(expression[i]) &&
        std::string_view(".()[]").find(expression[i]) == std::string_view::npos)
      return std::nullopt;
  return dedented(spliced(source, {at, end}, by));
}

std::optional<std::string> give_argument(std::string_view source, std::string_view function, std::string_view keyword,
                                         std::string_view value) {
  const Scan scan(source);
  const auto call = only_call_in(source, scan, function);
  if (!call) return std::nullopt;
  const auto spans = arguments(source, scan, *call);
  if (const auto given = keyword_value(source, spans, keyword)) return dedented(spliced(source, *given, value));
  std::string more = std::string(keyword).append("=").append(value);
  if (!spans.empty()) more.insert(0, ", ");
  const size_t end = spans.empty() ? call->close : end_of_arguments(source, spans);
  return dedented(spliced(source, {end, end}, more));
}

std::optional<std::string> give_map_location(std::string_view source, std::string_view device) {
  for (const std::string_view module : torch_functions::kModules)
    if (auto code = give_argument(source, fmt::format("{}.load", module), "map_location", device)) return code;
  return std::nullopt;
}

std::optional<std::string> keyword_argument(std::string_view source, std::string_view keyword) {
  const Scan scan(source);
  for (size_t at = 0; (at = source.find(keyword, at)) != source.npos; ++at) {
    if (!scan.code[at] || scan.depth[at] == 0 || (at > 0 && word_char(source[at - 1]))) continue;
    const size_t equals = skip_blanks(source, at + keyword.size());
    if (equals + 1 >= source.size() || source[equals] != '=' || source[equals + 1] == '=') continue;
    const size_t begin = skip_blanks(source, equals + 1);
    size_t end = begin;
    bool parameters = source.substr(begin, 7) == "lambda ";  // whose commas are its own
    for (; end < source.size() && scan.depth[end] >= scan.depth[at]; ++end) {
      if (scan.depth[end] > scan.depth[at]) continue;
      if (source[end] == ':') parameters = false;
      if (source[end] == ',' && !parameters) break;
    }
    return std::string(trimmed(source.substr(begin, end - begin)));
  }
  return std::nullopt;
}

std::optional<std::string> callee_with(std::string_view source, std::string_view name) {
  auto callee = callee_of(source, name);
  return callee ? callee : callee_of(source, container_of(name));
}

std::optional<std::string> callee_of(std::string_view source, std::string_view name) {
  const auto found = find_reads(source, name);
  if (found.size() != 1) return std::nullopt;
  const Scan scan(source);
  for (size_t at = found[0]; at-- > 0;) {
    if (!scan.code[at] || source[at] != '(' || scan.depth[at] >= scan.depth[found[0]]) continue;
    size_t begin = at;
    while (begin > 0 && (word_char(source[begin - 1]) || source[begin - 1] == '.') && scan.code[begin - 1]) --begin;
    const std::string_view callee = source.substr(begin, at - begin);
    if (callee.empty() || callee.front() == '.' || !is_reference(callee)) return std::nullopt;
    return std::string(callee);
  }
  return std::nullopt;
}

std::optional<std::string> wrap_value(std::string_view source, std::string_view function) {
  const Scan scan(source);
  if (!scan.balanced || scan.value_begins == 0) return std::nullopt;
  const size_t begin = skip_blanks(source, scan.value_begins);
  size_t end = source.size();
  while (end > begin && std::isspace(static_cast<unsigned char>(source[end - 1]))) --end;
  for (size_t i = begin; i < end; ++i)
    if (source[i] == '#' && !scan.code[i]) return std::nullopt;
  if (begin >= end) return std::nullopt;
  return dedented(spliced(source, {begin, end},
                          std::string(function).append("(").append(source.substr(begin, end - begin)).append(")")));
}

std::optional<std::string> call_instead(std::string_view source, std::string_view callee, std::string_view other,
                                        std::string_view more) {
  const Scan scan(source);
  const auto call = only_call_in(source, scan, callee);
  if (!call) return std::nullopt;
  const auto spans = arguments(source, scan, *call);
  std::string out(source.substr(0, call->name));
  out.append(other).append(source.substr(call->open, call->close - call->open));
  if (!more.empty()) out.append(spans.empty() ? "" : ", ").append(more);
  return dedented(out.append(source.substr(call->close)));
}

}  // namespace devtrace::report::verdict
