#include "report/verdict/source_line.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "report/base/escaping.h"

namespace devtrace::report::verdict {
namespace {

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// What of a statement is code: not inside of a string literal or a comment; how deep in brackets each byte lies; and
// where the value of an assignment begins.
struct Scan {
  explicit Scan(std::string_view source) : code(source.size(), false), depth(source.size(), 0) {
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

  std::vector<bool> code;
  std::vector<int> depth;
  size_t value_begins = 0;
  bool balanced = true;  // false for a statement that was cut

 private:
  size_t skip_literal(std::string_view source, size_t at, int level) {
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
  static bool is_assignment(std::string_view source, size_t at) {
    const char before = at > 0 ? source[at - 1] : ' ';
    const char after = at + 1 < source.size() ? source[at + 1] : ' ';
    return after != '=' && before != '=' && before != '!' && before != '<' && before != '>' && before != ':';
  }
};

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
    if (is_loop_target(source, at)) continue;
    if (follows == '.' && only_metadata(source, next)) continue;
    found.push_back(at);
  }
  return found;
}

// Does a method that writes in place, or an assignment to elements, hang on the expression that ends here?
bool written_through(std::string_view source, size_t end) {
  const size_t dot = skip_blanks(source, end);
  if (dot >= source.size() || source[dot] != '.') return false;
  size_t stop = dot + 1;
  while (stop < source.size() && word_char(source[stop])) ++stop;
  return stop < source.size() && source[stop] == '(' && source[stop - 1] == '_' && source.substr(dot + 1, 2) != "__";
}

bool is_keyword_value(std::string_view source, size_t at, std::string_view keyword) {
  while (at > 0 && source[at - 1] == ' ') --at;
  if (at == 0 || source[at - 1] != '=') return false;
  --at;
  while (at > 0 && source[at - 1] == ' ') --at;
  return at >= keyword.size() && source.substr(at - keyword.size(), keyword.size()) == keyword;
}

struct Call {
  size_t name;  // of the called function's last word
  size_t open;  // its parenthesis
  size_t close;
};

// Position of the bracket that closes the one at `open`, or npos.
size_t closing(const Scan& scan, std::string_view source, size_t open) {
  for (size_t at = open + 1; at < source.size(); ++at) {
    if (scan.code[at] && scan.depth[at] == scan.depth[open] &&
        (source[at] == ')' || source[at] == ']' || source[at] == '}'))
      return at;
  }
  return source.npos;
}

// Calls whose name (with what is before it, as `torch.` or `.`) is one of those.
template <typename Names>
std::vector<Call> find_calls(std::string_view source, const Scan& scan, std::string_view prefix, const Names& names) {
  std::vector<Call> calls;
  for (const std::string_view name : names) {
    const std::string wanted = std::string(prefix) + std::string(name) + "(";
    for (size_t at = 0; (at = source.find(wanted, at)) != source.npos; ++at) {
      if (!scan.code[at]) continue;
      if (prefix.front() != '.' && at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) continue;
      const size_t open = at + wanted.size() - 1;
      if (const size_t close = closing(scan, source, open); close != source.npos) calls.push_back({at, open, close});
    }
  }
  return calls;
}

constexpr std::string_view kFactories[] = {
    "arange", "as_tensor", "empty", "eye",      "full",   "hann_window",  "linspace",     "logspace", "ones",
    "rand",   "randint",   "randn", "randperm", "tensor", "tril_indices", "triu_indices", "zeros"};
constexpr std::string_view kMoves[] = {"to", "cuda"};

// Constructors under torch.cuda: their memory is the current device's.
constexpr std::string_view kCudaTypes[] = {"BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
                                           "FloatTensor",    "HalfTensor", "IntTensor",  "LongTensor", "ShortTensor"};

std::vector<Call> factory_calls(std::string_view source, const Scan& scan) {
  return find_calls(source, scan, "torch.", kFactories);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

struct Span {
  size_t begin, end;
};

// The call's arguments, by commas of its own level.
std::vector<Span> arguments(std::string_view source, const Scan& scan, const Call& call) {
  std::vector<Span> spans;
  size_t begin = call.open + 1;
  for (size_t at = begin; at <= call.close; ++at) {
    if (at != call.close && !(scan.code[at] && source[at] == ',' && scan.depth[at] == scan.depth[call.open] + 1))
      continue;
    if (!trimmed(source.substr(begin, at - begin)).empty()) spans.push_back({begin, at});
    begin = at + 1;
  }
  return spans;
}

// The value of keyword `key` among the arguments.
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

bool current_device_literal(std::string_view value) {
  const std::string text = with_one_quote(trimmed(value));
  return text == "\"cuda\"" || text == "torch.device(\"cuda\")" || text == "torch.cuda.current_device()";
}

// A device, as far as its spelling tells: a string, torch.device(…), a number, or a name that says so.
bool looks_like_a_device(std::string_view value) {
  value = trimmed(value);
  if (value.empty()) return false;
  if (value.front() == '"' || value.front() == '\'') return true;
  if (value.starts_with("torch.device(")) return true;
  if (std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); })) return true;
  return value.ends_with("device") || value.ends_with("device_id") || value == "torch.cuda.current_device()";
}

std::string spliced(std::string_view source, Span span, std::string_view by) {
  return std::string(source.substr(0, span.begin)).append(by).append(source.substr(span.end));
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

int reads(std::string_view source, std::string_view name) {
  return static_cast<int>(find_reads(source, name).size());
}

bool writes_through(std::string_view source, std::string_view name) {
  for (const size_t at : find_reads(source, name)) {
    if (written_through(source, at + name.size()) || is_keyword_value(source, at, "out")) return true;
  }
  return false;
}

std::optional<std::string> replace_read(std::string_view source, std::string_view name, std::string_view by) {
  const auto found = find_reads(source, name);
  if (found.size() != 1) return std::nullopt;
  const Scan scan(source);
  const size_t end = found[0] + name.size();
  if (!scan.balanced || writes_through(source, name)) return std::nullopt;
  return dedented(spliced(source, {found[0], end}, by));
}

std::optional<std::string> move_expression(std::string_view source, std::string_view expression,
                                           std::string_view device) {
  const Scan scan(source);
  const size_t at = source.find(expression);
  if (expression.empty() || at == source.npos || source.find(expression, at + 1) != source.npos || !scan.balanced)
    return std::nullopt;
  const size_t end = at + expression.size();
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

std::optional<std::string> replace_expression(std::string_view source, std::string_view expression,
                                              std::string_view by) {
  const Scan scan(source), inside(expression);
  const size_t at = source.find(expression);
  if (expression.empty() || at == source.npos || source.find(expression, at + 1) != source.npos || !scan.balanced ||
      !inside.balanced || !scan.code[at])
    return std::nullopt;
  const size_t end = at + expression.size();
  if ((at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) ||
      (end < source.size() && word_char(source[end]) && word_char(expression.back())))
    return std::nullopt;
  for (size_t i = 0; i < expression.size(); ++i)
    if (inside.code[i] && inside.depth[i] == 0 && !word_char(expression[i]) &&
        std::string_view(".()[]").find(expression[i]) == std::string_view::npos)
      return std::nullopt;
  return dedented(spliced(source, {at, end}, by));
}

// The only call of a function that the text has; nothing where there are several, or none.
static std::optional<Call> only_call(std::string_view source, const Scan& scan, std::string_view function) {
  const std::string wanted = std::string(function) + "(";
  const size_t at = source.find(wanted);
  if (at == source.npos || source.find(wanted, at + 1) != source.npos || !scan.balanced || !scan.code[at] ||
      (at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')))
    return std::nullopt;
  const size_t open = at + function.size(), close = closing(scan, source, open);
  if (close == source.npos) return std::nullopt;
  return Call{at, open, close};
}

std::optional<std::string> give_argument(std::string_view source, std::string_view function, std::string_view keyword,
                                         std::string_view value) {
  const Scan scan(source);
  const auto call = only_call(source, scan, function);
  if (!call) return std::nullopt;
  const auto spans = arguments(source, scan, *call);
  if (const auto given = keyword_value(source, spans, keyword)) return dedented(spliced(source, *given, value));
  std::string more = std::string(keyword).append("=").append(value);
  if (!spans.empty()) more.insert(0, ", ");
  return dedented(spliced(source, {call->close, call->close}, more));
}

std::optional<std::string> to_empty(std::string_view source) {
  const Scan scan(source);
  const auto calls = find_calls(source, scan, ".", kMoves);
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const Call& call = calls[0];
  const auto spans = arguments(source, scan, call);
  const bool cuda = source.substr(call.name, 5) == ".cuda";
  if (cuda && spans.empty())
    return dedented(spliced(source, {call.name, call.close + 1}, ".to_empty(device=\"cuda\")"));
  if (cuda || spans.size() != 1) return std::nullopt;
  const auto keyword = keyword_value(source, spans, "device");
  const Span value = keyword ? *keyword : spans[0];
  const std::string_view device = trimmed(source.substr(value.begin, value.end - value.begin));
  if (!keyword && !looks_like_a_device(device)) return std::nullopt;
  return dedented(
      spliced(source, {call.name, call.close + 1}, std::string(".to_empty(device=").append(device).append(")")));
}

std::optional<std::string> keyword_argument(std::string_view source, std::string_view keyword) {
  const Scan scan(source);
  for (size_t at = 0; (at = source.find(keyword, at)) != source.npos; ++at) {
    if (!scan.code[at] || scan.depth[at] == 0 || (at > 0 && word_char(source[at - 1]))) continue;
    const size_t equals = skip_blanks(source, at + keyword.size());
    if (equals + 1 >= source.size() || source[equals] != '=' || source[equals + 1] == '=') continue;
    const size_t begin = skip_blanks(source, equals + 1);
    size_t end = begin;
    while (end < source.size() && scan.depth[end] >= scan.depth[at] &&
           (source[end] != ',' || scan.depth[end] > scan.depth[at]))
      ++end;
    return std::string(trimmed(source.substr(begin, end - begin)));
  }
  return std::nullopt;
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

bool makes_tensor(std::string_view source) {
  return !factory_calls(source, Scan(source)).empty();
}

bool says_device(std::string_view source) {
  const Scan scan(source);
  for (const Call& call : factory_calls(source, scan)) {
    if (keyword_value(source, arguments(source, scan, call), "device")) return true;
  }
  return !find_calls(source, scan, ".", kMoves).empty();
}

std::optional<std::string> give_device(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const auto calls = factory_calls(source, scan);
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const auto spans = arguments(source, scan, calls[0]);
  if (const auto value = keyword_value(source, spans, "device")) {
    if (!current_device_literal(source.substr(value->begin, value->end - value->begin))) return std::nullopt;
    return dedented(spliced(source, *value, device));
  }
  if (spans.empty()) return std::nullopt;
  const std::string_view last = source.substr(spans.back().begin, spans.back().end - spans.back().begin);
  const size_t end = spans.back().begin + (last.find_last_not_of(" \t\n\\") + 1);
  return dedented(spliced(source, {end, end}, ", device=" + std::string(device)));
}

std::optional<std::string> give_device_to_all(std::string_view source, std::string_view device) {
  const Scan scan(source);
  auto calls = factory_calls(source, scan);
  if (calls.empty() || !scan.balanced) return std::nullopt;
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.name > b.name; });
  std::string out(source);
  for (const Call& call : calls) {
    const auto spans = arguments(source, scan, call);
    if (spans.empty() || keyword_value(source, spans, "device")) return std::nullopt;
    for (const Call& other : calls)
      if (call.open < other.name && other.close < call.close) return std::nullopt;  // one within the other
    const std::string_view last = source.substr(spans.back().begin, spans.back().end - spans.back().begin);
    const size_t end = spans.back().begin + (last.find_last_not_of(" \t\n\\") + 1);
    out.insert(end, ", device=" + std::string(device));
  }
  return dedented(out);
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
  const auto call = only_call(source, scan, callee);
  if (!call) return std::nullopt;
  const auto spans = arguments(source, scan, *call);
  std::string out(source.substr(0, call->name));
  out.append(other).append(source.substr(call->open, call->close - call->open));
  if (!more.empty()) out.append(spans.empty() ? "" : ", ").append(more);
  return dedented(out.append(source.substr(call->close)));
}

std::optional<std::string> redirect_move(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const auto calls = find_calls(source, scan, ".", kMoves);
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const Call& call = calls[0];
  const auto spans = arguments(source, scan, call);
  const bool cuda = source.substr(call.name, 5) == ".cuda";
  if (cuda) {
    if (spans.size() > 1) return std::nullopt;
    // .cuda(non_blocking=True) keeps what it says besides the device.
    std::string rest;
    if (!spans.empty()) {
      const std::string_view only = trimmed(source.substr(spans[0].begin, spans[0].end - spans[0].begin));
      if (only.starts_with("non_blocking")) rest = ", " + std::string(only);
    }
    return dedented(spliced(source, {call.name, call.close + 1}, ".to(" + std::string(device) + rest + ")"));
  }
  if (spans.empty()) return std::nullopt;
  if (const auto value = keyword_value(source, spans, "device")) return dedented(spliced(source, *value, device));
  const size_t begin = skip_blanks(source, spans[0].begin);
  const std::string_view first = trimmed(source.substr(begin, spans[0].end - begin));
  if (!looks_like_a_device(first)) return std::nullopt;
  return dedented(spliced(source, {begin, begin + first.size()}, device));
}

namespace {

// Operations of torch and methods of tensors whose result lies where their first operand does.
constexpr std::string_view kStaying[] = {
    "abs",        "add",       "argmax",    "bmm",    "chunk",        "clamp",   "clone",
    "contiguous", "cos",       "cumsum",    "detach", "div",          "exp",     "expand",
    "flatten",    "float",     "gather",    "half",   "index_select", "log",     "log_softmax",
    "matmul",     "mean",      "mm",        "mul",    "neg",          "permute", "pow",
    "relu",       "repeat",    "reshape",   "rsqrt",  "sigmoid",      "sin",     "softmax",
    "sqrt",       "square",    "squeeze",   "sub",    "sum",          "t",       "take_along_dim",
    "tanh",       "transpose", "unsqueeze", "view"};

bool stays(std::string_view operation) {
  return std::find(std::begin(kStaying), std::end(kStaying), operation) != std::end(kStaying);
}

// Is the call, whose name has a part at `name`, all that is given for an argument?
bool is_whole_argument(std::string_view source, size_t name, size_t close) {
  size_t begin = name;  // with what is before that part: `tokenizer.encode(`
  while (begin > 0 && (word_char(source[begin - 1]) || source[begin - 1] == '.')) --begin;
  while (begin > 0 && source[begin - 1] == ' ') --begin;
  const size_t next = skip_blanks(source, close + 1);
  const bool opens = begin > 0 && (source[begin - 1] == '(' || source[begin - 1] == ',' || source[begin - 1] == '=');
  return opens && next < source.size() && (source[next] == ')' || source[next] == ',');
}

size_t name_end(std::string_view source, size_t at) {
  while (at < source.size() && word_char(source[at])) ++at;
  return at;
}

}  // namespace

std::optional<std::string> begins_with(std::string_view expression) {
  const Scan scan(expression);
  if (!scan.balanced) return std::nullopt;
  std::string_view tensor;
  size_t at = 0;
  for (const std::string_view prefix : {"torch.nn.functional.", "torch.", "F."}) {
    if (!expression.starts_with(prefix)) continue;
    const size_t open = name_end(expression, prefix.size());
    if (open >= expression.size() || expression[open] != '(') return std::nullopt;
    const size_t close = closing(scan, expression, open);
    if (close == expression.npos || !stays(expression.substr(prefix.size(), open - prefix.size()))) return std::nullopt;
    const auto spans = arguments(expression, scan, {prefix.size(), open, close});
    if (spans.empty()) return std::nullopt;
    tensor = trimmed(expression.substr(spans[0].begin, spans[0].end - spans[0].begin));
    at = close + 1;
    break;
  }
  if (tensor.empty()) {
    at = name_end(expression, 0);
    tensor = expression.substr(0, at);
  }
  while (at < expression.size()) {
    if (expression[at] != '.') return std::nullopt;
    const size_t open = name_end(expression, at + 1);
    if (open >= expression.size() || expression[open] != '(' || !stays(expression.substr(at + 1, open - at - 1)))
      return std::nullopt;
    const size_t close = closing(scan, expression, open);
    if (close == expression.npos) return std::nullopt;
    at = close + 1;
  }
  if (!is_reference(tensor)) return std::nullopt;
  return std::string(tensor);
}

std::optional<std::string> move_result(std::string_view source, std::string_view function, std::string_view device) {
  const Scan scan(source);
  std::optional<size_t> end;
  const std::string wanted = std::string(function) + "(";
  for (size_t at = 0; (at = source.find(wanted, at)) != source.npos; ++at) {
    if (!scan.code[at] || (at > 0 && word_char(source[at - 1]))) continue;
    if (end) return std::nullopt;
    const size_t close = closing(scan, source, at + wanted.size() - 1);
    if (close == source.npos) return std::nullopt;
    if (!is_whole_argument(source, at, close)) return std::nullopt;
    end = close + 1;
  }
  if (!end) return std::nullopt;
  return dedented(spliced(source, {*end, *end}, ".to(" + std::string(device) + ")"));
}

bool makes_argument(std::string_view source) {
  const auto calls = factory_calls(source, Scan(source));
  return calls.size() == 1 && is_whole_argument(source, calls[0].name, calls[0].close);
}

std::optional<std::string> moved_to(std::string_view source) {
  const Scan scan(source);
  const auto calls = find_calls(source, scan, ".", kMoves);
  if (calls.size() != 1 || source.substr(calls[0].name, 3) != ".to") return std::nullopt;
  const auto spans = arguments(source, scan, calls[0]);
  if (spans.size() != 1) return std::nullopt;
  const std::string_view value = trimmed(source.substr(spans[0].begin, spans[0].end - spans[0].begin));
  // Not a dtype, and not another tensor: both are references too.
  if (!is_reference(value) || !value.ends_with("device")) return std::nullopt;
  return std::string(value);
}

bool says_current_device(std::string_view source) {
  const Scan scan(source);
  for (const Call& call : find_calls(source, scan, ".", kMoves)) {
    const auto spans = arguments(source, scan, call);
    const bool cuda = source.substr(call.name, 5) == ".cuda";
    if (cuda && std::all_of(spans.begin(), spans.end(), [&](const Span& span) {
          return trimmed(source.substr(span.begin, span.end - span.begin)).starts_with("non_blocking");
        }))
      return true;
    if (spans.empty()) continue;
    const Span said = keyword_value(source, spans, "device").value_or(spans[0]);
    if (!cuda && current_device_literal(source.substr(said.begin, said.end - said.begin))) return true;
  }
  for (const Call& call : factory_calls(source, scan)) {
    const auto value = keyword_value(source, arguments(source, scan, call), "device");
    if (value && current_device_literal(source.substr(value->begin, value->end - value->begin))) return true;
  }
  const auto typed = find_calls(source, scan, "torch.cuda.", kCudaTypes);
  return std::any_of(typed.begin(), typed.end(),
                     [&](const Call& call) { return !keyword_value(source, arguments(source, scan, call), "device"); });
}

}  // namespace devtrace::report::verdict
