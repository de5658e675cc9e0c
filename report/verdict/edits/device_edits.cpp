#include "report/verdict/edits/device_edits.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/text.h"
#include "common/torch_functions.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

using namespace torch_functions;

constexpr std::string_view kMoves[] = {"to", "cuda"};

// Constructors under torch.cuda: their memory is the current device's.
constexpr std::string_view kCudaTypes[] = {"BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
                                           "FloatTensor",    "HalfTensor", "IntTensor",  "LongTensor", "ShortTensor"};

// By the module's name, or another one that many programs import it under. The array API standard calls an array's
// namespace xp: it may be NumPy, but not where it has made a tensor.
bool of_torch(std::string_view name) {
  return is_torch(name.substr(0, name.find('.'))) || name.starts_with("xp.");
}

// Calls of functions that make a tensor and take device=: torch.zeros(…), torch.fft.fftfreq(…), x.new_zeros(…).
std::vector<Call> factory_calls(std::string_view source, const Scan& scan) {
  return find_calls_if(source, scan, [](std::string_view before, std::string_view name) {
    const Function function = function_named(name);
    return function.is(kMakes | kTakesDevice) && (function.is(kMethod) || of_torch(before)) && before.ends_with('.');
  });
}

bool from_nothing(std::string_view source, const Call& call) {
  const std::string_view whole = source.substr(call.name, call.open - call.name);
  return !function_named(whole.substr(whole.rfind('.') + 1)).follows_operands();
}

size_t name_end(std::string_view source, size_t at) {
  while (at < source.size() && word_char(source[at])) ++at;
  return at;
}

// Does what the call gives go to NumPy or Python: `torch.ones(n)[0].numpy()`, `np.asarray(torch.ones(n))`? NumPy takes
// nothing from a GPU.
bool leaves_pytorch(std::string_view source, const Scan& scan, const Call& call) {
  constexpr std::string_view kTo[] = {"numpy", "tolist", "item"};
  constexpr std::string_view kTakes[] = {"np.array(", "np.asarray(", "numpy.array(", "numpy.asarray("};
  const std::string_view before = source.substr(0, call.name);
  if (std::ranges::any_of(kTakes, [&](std::string_view each) { return before.ends_with(each); })) return true;
  for (size_t at = call.close + 1; at < source.size() && std::string_view(".[(").find(source[at]) != source.npos;) {
    if (source[at] != '.') {
      at = closing(scan, source, at);
      at += at != source.npos;
      continue;
    }
    const size_t end = name_end(source, at + 1);
    if (std::ranges::find(kTo, source.substr(at + 1, end - at - 1)) != std::end(kTo)) return true;
    at = end;
  }
  return false;
}

// Those that decide where the result lies. zeros_like(x) lies where x lies, and so where x was made, if it was made
// here.
std::vector<Call> deciding_calls(std::string_view source, const Scan& scan) {
  std::vector<Call> calls = factory_calls(source, scan);
  std::erase_if(calls, [&](const Call& call) { return leaves_pytorch(source, scan, call); });
  const auto made = [&](const Call& call) { return from_nothing(source, call); };
  if (std::any_of(calls.begin(), calls.end(), made)) std::erase_if(calls, std::not_fn(made));
  return calls;
}

bool current_device_literal(std::string_view value) {
  const std::string text = with_one_quote(trimmed(value));
  const std::string_view rest = after_torch(text);
  return text == "\"cuda\"" || rest == "device(\"cuda\")" || rest == "cuda.current_device()";
}

// A device, as far as its spelling tells: a string, torch.device(…), a number, or a name that says so.
bool looks_like_a_device(std::string_view value) {
  value = trimmed(value);
  if (value.empty()) return false;
  if (value.front() == '"' || value.front() == '\'') return true;
  if (after_torch(value).starts_with("device(")) return true;
  if (std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); })) return true;
  if (value.ends_with(']')) return value.substr(0, value.find('[')).find("device") != value.npos;  // of a table
  return value.ends_with("device") || value.ends_with("device_id") || after_torch(value) == "cuda.current_device()";
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

// `.to(…)` and `.cuda(…)` that may change the device: not those that name a type alone, `.to(torch.int32)`.
std::vector<Call> device_moves(std::string_view source, const Scan& scan) {
  auto calls = find_calls(source, scan, ".", kMoves);
  std::erase_if(calls, [&](const Call& call) {
    const auto spans = arguments(source, scan, call);
    if (spans.size() != 1) return false;
    std::string_view given = trimmed(source.substr(spans[0].begin, spans[0].end - spans[0].begin));
    if (given.starts_with("dtype=")) return true;
    return is_reference(given) && (!after_torch(given).empty() || given == "dtype" || given.ends_with(".dtype"));
  });
  return calls;
}

}  // namespace

std::optional<std::string> to_empty(std::string_view source) {
  const Scan scan(source);
  const auto calls = device_moves(source, scan);
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

bool makes_tensor(std::string_view source) {
  const auto calls = factory_calls(source, Scan(source));
  return std::any_of(calls.begin(), calls.end(), [&](const Call& call) { return from_nothing(source, call); });
}

bool constructs_tensor(std::string_view source) {
  const auto old = [](std::string_view before, std::string_view name) {
    return before.ends_with('.') && is_torch(before.substr(0, before.size() - 1)) && name.ends_with("Tensor");
  };
  return !find_calls_if(source, Scan(source), old).empty();
}

bool says_device(std::string_view source) {
  const Scan scan(source);
  for (const Call& call : factory_calls(source, scan)) {
    if (keyword_value(source, arguments(source, scan, call), "device")) return true;
  }
  return !device_moves(source, scan).empty() || source.find(".cpu()") != source.npos;
}

bool leaves_device_out(std::string_view source) {
  return (makes_tensor(source) || constructs_tensor(source)) && !says_device(source);
}

bool converts_data(std::string_view source) {
  constexpr std::string_view kConverters[] = {"tensor", "as_tensor", "asarray"};
  const Scan scan(source);
  const auto calls = find_calls(source, scan, "torch.", kConverters);
  const auto spans = calls.size() == 1 ? arguments(source, scan, calls[0]) : std::vector<Span>();
  if (spans.empty()) return false;
  const std::string_view data = trimmed(source.substr(spans[0].begin, spans[0].end - spans[0].begin));
  const size_t end = name_end(data, 0);
  const bool named = is_identifier(data.substr(0, end)) && (end == data.size() || data[end] == '.' || data[end] == '[');
  return named && data.find(".shape") == data.npos && data.find(".size") == data.npos;
}

bool hands_on_options(std::string_view source) {
  const Scan scan(source);
  for (const Call& call : factory_calls(source, scan))
    for (const Span& each : arguments(source, scan, call))
      if (trimmed(source.substr(each.begin, each.end - each.begin)).starts_with("**")) return true;
  return false;
}

std::optional<std::string> give_device(std::string_view source, std::string_view device) {
  if (keyword_argument(source, "generator")) return std::nullopt;  // which serves its own device only
  const Scan scan(source);
  const auto calls = deciding_calls(source, scan);
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const auto spans = arguments(source, scan, calls[0]);
  if (const auto value = keyword_value(source, spans, "device")) {
    if (!current_device_literal(source.substr(value->begin, value->end - value->begin))) return std::nullopt;
    return dedented(spliced(source, *value, device));
  }
  if (spans.empty() || hands_on_options(source)) return std::nullopt;
  const size_t end = end_of_arguments(source, spans);
  return dedented(spliced(source, {end, end}, ", device=" + std::string(device)));
}

std::optional<std::string> say_device(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const auto calls = deciding_calls(source, scan);
  if (calls.size() != 1 || !scan.balanced || keyword_argument(source, "generator")) return std::nullopt;
  const auto value = keyword_value(source, arguments(source, scan, calls[0]), "device");
  return value ? std::optional(dedented(spliced(source, *value, device))) : std::nullopt;
}

std::optional<std::string> give_device_to_all(std::string_view source, std::string_view device) {
  // A generator serves its own device only.
  if (keyword_argument(source, "generator") || hands_on_options(source)) return std::nullopt;
  const Scan scan(source);
  auto calls = deciding_calls(source, scan);
  if (calls.empty() || !scan.balanced) return std::nullopt;
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.name > b.name; });
  std::string out(source);
  for (const Call& call : calls) {
    const auto spans = arguments(source, scan, call);
    if (spans.empty() || keyword_value(source, spans, "device")) return std::nullopt;
    for (const Call& other : calls)
      if (call.open < other.name && other.close < call.close) return std::nullopt;  // one within the other
    const size_t end = end_of_arguments(source, spans);
    out.insert(end, ", device=" + std::string(device));
  }
  return dedented(out);
}

std::optional<std::string> give_device_beside(std::string_view source, std::string_view name, std::string_view device) {
  if (!makes_tensor(source) || says_device(source)) return std::nullopt;
  const Scan scan(source);
  std::string others(source);
  for (const Call& call : deciding_calls(source, scan))
    std::fill(others.begin() + static_cast<ptrdiff_t>(call.open) + 1,
              others.begin() + static_cast<ptrdiff_t>(call.close), ' ');
  return reads(others, name) > 0 ? give_device_to_all(source, device) : std::nullopt;
}

std::optional<std::string> draw_on(std::string_view source, std::string_view generator, std::string_view device) {
  const Scan scan(source);
  auto calls = factory_calls(source, scan);
  const auto text = [&](const Span& span) { return trimmed(source.substr(span.begin, span.end - span.begin)); };
  std::erase_if(calls, [&](const Call& call) {
    const auto given = keyword_value(source, arguments(source, scan, call), "generator");
    return !given || text(*given) != generator;
  });
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const auto said = keyword_value(source, arguments(source, scan, calls[0]), "device");
  const size_t end = calls[0].close + 1;
  if (!said) return dedented(spliced(source, {calls[0].close, calls[0].close}, ", device=" + std::string(device)));
  const std::string moved = std::string(".to(").append(text(*said)).append(")");
  return dedented(spliced(spliced(source, {end, end}, moved), *said, device));
}

// `x, y = x.to(device), y.to(device)`, where all say the same, and `x, y = x.cuda(), y.cuda()`.
static std::optional<std::string> redirect_all(std::string_view source, const Scan& scan, std::vector<Call> calls,
                                               std::string_view device) {
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.name > b.name; });
  const auto said = [&](const Call& call) { return trimmed(source.substr(call.open + 1, call.close - call.open - 1)); };
  std::string out(source);
  for (const Call& call : calls) {
    if (said(call) != said(calls[0]) || !scan.balanced) return std::nullopt;
    if (said(call).empty() && source.substr(call.name, 5) == ".cuda") {
      out.replace(call.name, call.close + 1 - call.name, fmt::format(".to({})", device));
      continue;
    }
    if (!looks_like_a_device(said(call))) return std::nullopt;
    out.replace(call.open + 1, call.close - call.open - 1, device);
  }
  return dedented(out);
}

std::optional<std::string> redirect_move(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const auto calls = device_moves(source, scan);
  if (calls.size() > 1) return redirect_all(source, scan, calls, device);
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

bool only_moves(std::string_view statement) {
  const Scan scan(statement);
  const auto calls = find_calls(statement, scan, ".", kMoves);
  if (calls.size() != 1 || statement.find('\n') != statement.npos) return false;
  if (!trimmed(statement.substr(calls[0].close + 1)).empty()) return false;
  const std::string_view moved = trimmed(statement.substr(0, calls[0].name));
  if (scan.value_begins == 0) return is_reference(moved);
  const std::string_view value = trimmed(statement.substr(scan.value_begins, calls[0].name - scan.value_begins));
  const size_t equals = statement.find('=');
  return is_reference(value) && trimmed(statement.substr(0, equals)) == value;
}

std::optional<std::string> kept_move(std::string_view source) {
  if (!redirect_move(source, "cpu") || device_moves(source, Scan(source)).size() > 1)
    return std::nullopt;  // to a dtype
  const std::string move = dedented(source);
  const std::string name = move.substr(0, move.rfind('.', move.find('(')));
  return is_reference(name) ? std::optional(fmt::format("{} = {}", name, move)) : std::nullopt;
}

std::optional<std::string> without_move_of(std::string_view source, std::string_view function) {
  const Scan scan(source);
  const auto moves = device_moves(source, scan);
  const auto calls =
      find_calls_if(source, scan, [&](std::string_view, std::string_view name) { return name == function; });
  if (moves.size() != 1 || calls.size() != 1 || !scan.balanced || calls[0].close + 1 != moves[0].name)
    return std::nullopt;
  return dedented(spliced(source, {moves[0].name, moves[0].close + 1}, ""));
}

std::optional<std::string> without_move(std::string_view source) {
  constexpr std::string_view kAll[] = {"to", "cuda", "cpu"};
  const Scan scan(source);
  const auto calls = find_calls(source, scan, ".", kAll);
  if (calls.size() != 1 || !scan.balanced) return std::nullopt;
  const auto spans = arguments(source, scan, calls[0]);
  const bool alone = spans.empty() || (spans.size() == 1 && redirect_move(source, "cpu"));
  return alone ? std::optional(dedented(spliced(source, {calls[0].name, calls[0].close + 1}, ""))) : std::nullopt;
}

std::optional<std::string> begins_with(std::string_view expression) {
  const Scan scan(expression);
  if (!scan.balanced) return std::nullopt;
  std::string_view tensor;
  size_t at = 0;
  const auto stays = [&](size_t name, size_t open, size_t close) {
    return function_named(expression.substr(name, open - name)).follows_operands() &&
           !keyword_value(expression, arguments(expression, scan, {name, open, close}), "device");
  };
  constexpr std::string_view kFunctional = "nn.functional.";
  const std::string_view rest = after_torch(expression);
  size_t function = expression.starts_with("F.") ? 2 : 0;  // where its name begins; 0: it calls none of torch's
  if (!rest.empty())
    function = expression.size() - rest.size() + (rest.starts_with(kFunctional) ? kFunctional.size() : 0);
  if (function > 0) {
    const size_t open = name_end(expression, function);
    if (open >= expression.size() || expression[open] != '(') return std::nullopt;
    const size_t close = closing(scan, expression, open);
    if (close == expression.npos || !stays(function, open, close)) return std::nullopt;
    const auto spans = arguments(expression, scan, {function, open, close});
    if (spans.empty()) return std::nullopt;
    tensor = trimmed(expression.substr(spans[0].begin, spans[0].end - spans[0].begin));
    at = close + 1;
  }
  bool extends = tensor.empty();  // `self.weight` of `self.weight.float()`
  if (extends) tensor = expression.substr(0, at = name_end(expression, 0));
  while (at < expression.size()) {
    if (expression[at] != '.') return std::nullopt;
    const size_t end = name_end(expression, at + 1);
    const std::string_view name = expression.substr(at + 1, end - at - 1);
    if (end < expression.size() && expression[end] == '(') {
      const size_t close = closing(scan, expression, end);
      if (close == expression.npos || !stays(at + 1, end, close)) return std::nullopt;
      extends = false;
      at = close + 1;
      continue;
    }
    if (name == "T" || name == "mT")
      extends = false;
    else if (!extends)
      return std::nullopt;
    else
      tensor = expression.substr(0, end);
    at = end;
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

namespace {

constexpr std::string_view kReturn = "return ";

// Where the value of a statement that only assigns to a reference, or returns, begins and ends.
std::optional<Span> value_of(std::string_view source, const Scan& scan) {
  const size_t first = skip_blanks(source, 0);
  const bool returns = source.substr(first).starts_with(kReturn);
  if (!scan.balanced || (!returns && !assigned_name(source) && unpacked_names(source).empty())) return std::nullopt;
  const size_t begin = skip_blanks(source, returns ? first + kReturn.size() : scan.value_begins);
  for (size_t end = source.size(); end > begin;) {
    if (std::isspace(static_cast<unsigned char>(source[end - 1]))) {
      --end;
      continue;
    }
    size_t comment = end;  // or a text, with which the value ends
    while (comment > begin && !scan.code[comment - 1]) --comment;
    if (comment == end || source[comment] != '#') return Span{begin, end};
    end = comment;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> assigned_name(std::string_view source) {
  const Scan scan(source);
  if (scan.value_begins == 0) return std::nullopt;
  std::string_view target = source.substr(0, scan.value_begins);
  target = trimmed(target.substr(0, target.rfind('=')));
  if (const size_t annotation = target.find(':'); annotation != target.npos)
    target = trimmed(target.substr(0, annotation));
  return is_reference(target) ? std::optional(std::string(target)) : std::nullopt;
}

std::vector<std::string> parts_of_display(std::string_view value) {
  const Scan scan(value);
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = 0; at <= value.size(); ++at) {
    if (at < value.size() && !(scan.code[at] && scan.depth[at] == 0 && value[at] == ',')) continue;
    parts.emplace_back(trimmed(value.substr(begin, at - begin)));
    begin = at + 1;
  }
  return parts;
}

std::vector<std::string> unpacked_names(std::string_view source) {
  const Scan scan(source);
  std::vector<std::string> names;
  if (scan.value_begins == 0) return names;
  std::string_view targets = trimmed(source.substr(0, scan.value_begins));
  targets.remove_suffix(1);
  if (targets.find(',') == targets.npos) return names;
  while (!targets.empty()) {
    const std::string_view one = trimmed(targets.substr(0, targets.find(',')));
    if (!is_identifier(one)) return {};
    names.emplace_back(one);
    targets.remove_prefix(std::min(targets.size(), targets.find(',')));
    if (!targets.empty()) targets.remove_prefix(1);
  }
  return names;
}

std::optional<std::string> move_value(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const auto value = value_of(source, scan);
  if (!value || !unpacked_names(source).empty()) return std::nullopt;
  // `self.model = model`: the name has the value's text in it.
  const std::string_view text = source.substr(value->begin, value->end - value->begin);
  const auto moved = text == "None" ? std::nullopt : move_expression(text, text, device);
  return moved ? std::optional(dedented(spliced(source, *value, *moved))) : std::nullopt;
}

std::string_view value_in(std::string_view source) {
  const auto value = value_of(source, Scan(source));
  return value ? source.substr(value->begin, value->end - value->begin) : std::string_view();
}

std::string called_in_value(std::string_view source) {
  const std::string_view value = value_in(source), callee = value.substr(0, value.find('('));
  if (!value.ends_with(')') || !is_reference(callee) || closing(Scan(value), value, callee.size()) + 1 != value.size())
    return {};
  return std::string(callee.substr(callee.rfind('.') + 1));
}

std::optional<std::string> replace_value(std::string_view source, std::string_view by) {
  const auto value = value_of(source, Scan(source));
  return value ? std::optional(dedented(spliced(source, *value, by))) : std::nullopt;
}

// Of an expression.
static bool is_new_tensor(std::string_view text) {
  const size_t name = text.find('.') + 1;
  const std::string_view called = text.substr(name, name_end(text, name) - name);
  const bool typed = called.ends_with("Tensor");
  const Function function = function_named(called);
  return of_torch(text) && text.back() == ')' && (typed || (function.is(kMakes) && !function.follows_operands()));
}

bool gives_new_tensor(std::string_view source) {
  const auto value = value_of(source, Scan(source));
  if (!value || !unpacked_names(source).empty()) return false;
  return is_new_tensor(source.substr(value->begin, value->end - value->begin));
}

std::optional<std::string> move_new_elements(std::string_view source, std::string_view device) {
  const Scan scan(source);
  const size_t loop = source.find(" for ");
  if (loop == source.npos || scan.depth[loop] == 0 || !scan.balanced) return std::nullopt;
  const Span each = element_before(source, scan, loop);
  const std::string_view text = source.substr(each.begin, each.end - each.begin);
  if (!is_new_tensor(text) || binds(source, device.substr(0, name_end(device, 0)))) return std::nullopt;
  const auto moved = move_expression(text, text, device);
  return moved ? std::optional(dedented(spliced(source, each, *moved))) : std::nullopt;
}

std::optional<std::string> move_constructed(std::string_view source, std::string_view type, std::string_view device) {
  const Scan scan(source);
  const auto value = value_of(source, scan);
  if (!value) return std::nullopt;
  const auto calls = find_calls_if(source, scan, [&](std::string_view, std::string_view name) { return name == type; });
  if (calls.size() != 1 || calls[0].name != value->begin || calls[0].close + 1 != value->end) return std::nullopt;
  return dedented(spliced(source, {value->end, value->end}, ".to(" + std::string(device) + ")"));
}

std::optional<std::string> move_call_of(std::string_view source, std::string_view type, std::string_view device) {
  const auto call = only_call_in(source, Scan(source), type);
  if (!call) return std::nullopt;
  return dedented(spliced(source, {call->close + 1, call->close + 1}, fmt::format(".to({})", device)));
}

bool makes_argument(std::string_view source) {
  const auto calls = deciding_calls(source, Scan(source));
  return calls.size() == 1 && is_whole_argument(source, calls[0].name, calls[0].close);
}

std::optional<std::string> moved_to(std::string_view source) {
  const Scan scan(source);
  const auto calls = device_moves(source, scan);
  if (calls.size() != 1 || source.substr(calls[0].name, 3) != ".to") return std::nullopt;
  const auto spans = arguments(source, scan, calls[0]);
  if (spans.empty()) return std::nullopt;
  const std::string_view value = trimmed(source.substr(spans[0].begin, spans[0].end - spans[0].begin));
  // Not a dtype, and not another tensor: both are references too.
  if (!is_reference(value) || !value.ends_with("device")) return std::nullopt;
  return std::string(value);
}

bool says_current_device(std::string_view source) {
  const Scan scan(source);
  for (const Call& call : device_moves(source, scan)) {
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
