#include "report/verdict/source/flow_reader.h"

#include <algorithm>
#include <cctype>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/torch_functions.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

template <size_t kCount>
bool is_one_of(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kPlaceless[] = {"shape",   "dtype", "ndim",    "layout", "requires_grad",
                                           "is_cuda", "names", "grad_fn", "is_leaf"};
constexpr std::string_view kOfLists[] = {"append", "extend", "insert", "pop", "remove"};  // no tensor has them
constexpr std::string_view kViews[] = {"T", "mT", "H", "real", "imag", "data", "values", "indices"};
// Methods of tensors that take tensors of any device.
constexpr std::string_view kMeetsAny[] = {"copy_", "expand_as", "view_as", "reshape_as", "set_"};
// Of all elements: a tensor without dimensions, which may meet any device where it lies on the CPU.
constexpr std::string_view kOfAllElements[] = {"sum", "mean", "prod",   "max", "min", "norm",
                                               "std", "var",  "median", "any", "all"};
// Of rows: values, and where they stand.
constexpr std::string_view kOfRows[] = {"max", "min", "median", "mode", "sort", "topk", "kthvalue", "cummax", "cummin"};
constexpr std::string_view kParts[] = {"F", "nn", "functional"};  // of torch, as programs import them

// The values, with what a display shows in its place.
std::vector<const FlowValue*> flat(const std::vector<FlowValue>& values) {
  std::vector<const FlowValue*> out;
  for (const FlowValue& each : values) {
    if (each.elements.empty()) {
      out.push_back(&each);
      continue;
    }
    const auto shown = flat(each.elements);
    out.insert(out.end(), shown.begin(), shown.end());
  }
  return out;
}

// Lies where the other one does.
void lie_as(FlowValue& it, const FlowValue& other) {
  it.device = other.device;
  it.base = other.base;
}

}  // namespace

void FlowReader::skip() {
  while (at_ < text_.size()) {
    if (text_[at_] == '#')
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    else if (std::string_view(" \t\r\n\\").find(text_[at_]) != std::string_view::npos)
      ++at_;
    else
      return;
  }
}
bool FlowReader::at_end() {
  skip();
  return at_ >= text_.size();
}
bool FlowReader::take(std::string_view symbol) {
  skip();
  if (!text_.substr(at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}
bool FlowReader::take_word(std::string_view word) {
  skip();
  const size_t end = at_ + word.size();
  if (!text_.substr(at_).starts_with(word) || (end < text_.size() && word_char(text_[end]))) return false;
  at_ = end;
  return true;
}

bool FlowReader::next_is(std::string_view symbol) {
  skip();
  return text_.substr(at_).starts_with(symbol);
}
bool FlowReader::next_is_word(std::string_view word) {
  const size_t before = at_;
  const bool is = take_word(word);
  at_ = before;
  return is;
}

// Of values that one operation is given: where its result lies.
FlowValue FlowReader::meet(const std::vector<const FlowValue*>& values) {
  const FlowValue *mismatched = nullptr, *there = nullptr;
  std::string other;
  for (const FlowValue* each : values) {
    if (each->device == known_.from)
      mismatched = each;
    else if (each->device == known_.to && (!there || there->base.empty()))
      there = each;
    else if (!each->device.empty() && each->device != known_.to)
      other = each->device;
  }
  FlowValue result;
  if (!other.empty()) {
    if (!mismatched && !there) result.device = other;
    return result;
  }
  if (!mismatched && !there) return result;
  result.device = there ? known_.to : known_.from;
  result.base = there ? there->base : mismatched->base;
  if (!mismatched || !there) return result;
  const std::string device = there->base.empty() ? known_.words : there->base + ".device";
  if (device.empty()) throw NotFollowed();
  for (const FlowValue* each : values)
    if (each->device == known_.from) moves.push_back({each->begin, each->end, each->compound, device});
  return result;
}

FlowValue FlowReader::ternary() {
  if (next_is_word("lambda") || next_is_word("yield") || next_is_word("await")) throw NotFollowed();
  FlowValue value = binary(0);
  if (take(":=")) throw NotFollowed();
  if (!take_word("if")) return value;
  binary(0);
  if (!take_word("else")) throw NotFollowed();
  const FlowValue other = ternary();
  FlowValue either;
  either.begin = value.begin;
  either.end = other.end;
  either.compound = true;
  if (value.device == other.device) either.device = value.device;
  return either;
}

// The operator that comes next; longer ones first.
const FlowReader::Operator* FlowReader::next_operator() {
  static constexpr Operator kWords[] = {
      {"or", 1, false}, {"and", 2, false}, {"not in", 4, false}, {"in", 4, false}, {"is", 4, false}};
  static constexpr Operator kSymbols[] = {{"==", 4, true}, {"!=", 4, true}, {"<=", 4, true},  {">=", 4, true},
                                          {"<<", 8, true}, {">>", 8, true}, {"//", 10, true}, {"**", 12, true},
                                          {"<", 4, true},  {">", 4, true},  {"|", 5, true},   {"^", 6, true},
                                          {"&", 7, true},  {"+", 9, true},  {"-", 9, true},   {"*", 10, true},
                                          {"/", 10, true}, {"%", 10, true}, {"@", 10, true}};
  for (const Operator& each : kWords)
    if (next_is_word(each.text)) return &each;
  for (const Operator& each : kSymbols)
    if (next_is(each.text)) return &each;
  return nullptr;
}

FlowValue FlowReader::binary(int least) {
  FlowValue left = unary();
  while (const Operator* const op = next_operator()) {
    if (op->rank < least) break;
    take(op->text);
    if (op->text == "is") take_word("not");
    const FlowValue right = binary(op->rank == 12 ? 11 : op->rank + 1);
    FlowValue result = op->meets ? meet({&left, &right}) : FlowValue();
    result.begin = left.begin;
    result.end = right.end;
    result.compound = true;
    left = std::move(result);
  }
  return left;
}

FlowValue FlowReader::unary() {
  skip();
  const size_t begin = at_;
  if (take_word("not")) {
    binary(4);
    FlowValue none;
    none.begin = begin;
    none.end = at_;
    none.compound = true;
    return none;
  }
  if (take("-") || take("+") || take("~")) {
    FlowValue value = binary(11);
    value.begin = begin;
    value.compound = true;
    value.reference.clear();
    return value;
  }
  return primary();
}

// Over a literal, or several in a row.
void FlowReader::literals() {
  while (!at_end() && !scan_.code[at_]) ++at_;
}

FlowValue FlowReader::atom() {
  skip();
  FlowValue value;
  value.begin = at_;
  if (at_ >= text_.size()) throw NotFollowed();
  const char c = text_[at_];
  if (c == '(' || c == '[' || c == '{') {
    const size_t open = at_, close = closing(scan_, text_, open);
    if (close == text_.npos) throw NotFollowed();
    ++at_;
    FlowValue shown;  // what a dict or a set has is not followed
    if (c != '{') shown = display(text_[close]);
    const bool grouped = c == '(' && shown.elements.empty() && close > open + 1;
    if (grouped) {
      value = shown;
      value.compound = false;
    } else {
      value.elements = std::move(shown.elements);
    }
    at_ = close + 1;
    value.begin = open;
    value.end = at_;
    value.reference.clear();
    return value;
  }
  if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') {
    while (at_ < text_.size() && (word_char(text_[at_]) || text_[at_] == '.')) ++at_;
    value.end = at_;
    return value;
  }
  size_t end = at_;
  while (end < text_.size() && word_char(text_[end])) ++end;
  const bool prefixed = end < text_.size() && end - at_ <= 2 && (text_[end] == '"' || text_[end] == '\'');
  if (c == '"' || c == '\'' || prefixed) {
    at_ = end;
    while (at_ < text_.size() && !scan_.code[at_]) value.end = ++at_;
    const std::string_view inside = text_.substr(end + 1, std::max(at_, end + 2) - end - 2);
    if (inside == "cpu" || inside.starts_with("cuda:")) value.said = inside;
    if (inside == "cuda") value.said = known_.current;
    literals();
    return value;
  }
  if (end == at_) throw NotFollowed();
  value.reference = text_.substr(at_, end - at_);
  at_ = value.end = end;
  look_up(value);
  return value;
}

void FlowReader::look_up(FlowValue& value) const {
  const std::string name = with_one_quote(value.reference);
  if (const auto found = known_.names.find(name); found != known_.names.end()) {
    value.device = found->second;
    value.base = value.reference;
  }
  if (const auto found = known_.devices.find(name); found != known_.devices.end()) value.said = found->second;
}

// Behind the bracket that closes those in which this place is.
void FlowReader::leave_brackets() {
  const int depth = scan_.depth[at_];
  while (at_ < text_.size() && !(scan_.code[at_] && scan_.depth[at_] < depth)) ++at_;
  if (at_ == text_.size()) throw NotFollowed();
  ++at_;
}

// `a, b` up to what closes it; a single expression without a comma is itself.
FlowValue FlowReader::display(char closing) {
  FlowValue value;
  value.begin = at_;
  bool comma = false;
  const auto ends = [&] { return closing == '\0' ? at_end() : !at_end() && text_[at_] == closing; };
  while (!ends()) {
    if (at_end()) throw NotFollowed();
    take("*");
    FlowValue each = ternary();
    if (next_is_word("for") || next_is_word("async")) {  // what each round gives is not followed
      if (closing == '\0') throw NotFollowed();
      leave_brackets();
      FlowValue none;
      none.begin = value.begin;
      none.end = at_;
      return none;
    }
    value.elements.push_back(std::move(each));
    if (!take(",")) break;
    comma = true;
  }
  if (!ends()) throw NotFollowed();
  if (closing != '\0') ++at_;
  value.end = at_;
  const bool alone = value.elements.size() == 1 && !comma && closing != ']';
  return alone ? FlowValue(value.elements[0]) : value;
}

FlowValue FlowReader::primary() {
  FlowValue value = atom();
  while (!at_end()) {
    if (next_is(".") && !next_is("..")) {
      take(".");
      skip();
      size_t end = at_;
      while (end < text_.size() && word_char(text_[end])) ++end;
      const std::string word(text_.substr(at_, end - at_));
      if (word.empty()) throw NotFollowed();
      at_ = end;
      value = next_is("(") && !value.device.empty() ? method(value, word) : attribute(value, word, end);
    } else if (next_is("(")) {
      value = call(value);
    } else if (next_is("[")) {
      value = subscript(value);
    } else {
      break;
    }
  }
  return value;
}

FlowValue FlowReader::attribute(const FlowValue& value, const std::string& word, size_t end) const {
  FlowValue result;
  result.begin = value.begin;
  result.end = end;
  if (!value.reference.empty()) result.reference = value.reference + "." + word;
  if (!value.device.empty()) {
    const bool placeless = is_one_of(word, kPlaceless) || word == "device";
    if (word == "device") result.said = value.device;
    if (is_one_of(word, kViews) || (value.several && !placeless)) lie_as(result, value);
    if (placeless) result.reference.clear();
    return result;
  }
  if (!result.reference.empty()) look_up(result);
  return result;
}

FlowValue FlowReader::subscript(const FlowValue& value) {
  const size_t open = at_, end = closing(scan_, text_, open);
  if (end == text_.npos) throw NotFollowed();
  const std::string_view inside = text_.substr(open + 1, end - open - 1);
  const bool number = !inside.empty() && inside.find_first_not_of("-0123456789") == inside.npos;
  FlowValue result;
  result.begin = value.begin;
  result.end = end + 1;
  // An element of a vector may meet any device.
  if (!number || value.device != "cpu" || value.several) lie_as(result, value);
  if (!value.reference.empty()) result.reference = value.reference + std::string(text_.substr(open, end + 1 - open));
  if (result.device.empty() && !result.reference.empty()) look_up(result);
  if (!value.device.empty() && !number) {
    std::vector<FlowValue> indices;
    for (const Span& part : arguments(text_, scan_, {open, open, end})) {
      at_ = part.begin;
      // A slice is no expression: its parts are numbers.
      if (text_.substr(part.begin, part.end - part.begin).find(':') != std::string_view::npos) continue;
      indices.push_back(ternary());
      if (skip(); at_ != part.end) throw NotFollowed();
    }
    std::vector<const FlowValue*> met = {&value};
    for (const FlowValue* each : flat(indices)) {
      result.indexed = result.indexed || !each->device.empty();
      if (each->device != "cpu") met.push_back(each);  // one on the CPU goes with every tensor
    }
    lie_as(result, meet(met));
    result.reference.clear();
  }
  at_ = end + 1;
  if (value.device.empty() && number && inside.size() == 1 &&
      static_cast<size_t>(inside[0] - '0') < value.elements.size())
    result.device = value.elements[static_cast<size_t>(inside[0] - '0')].device;
  return result;
}

FlowReader::Given FlowReader::given() {
  Given out;
  take("(");
  while (!next_is(")")) {
    if (at_end()) throw NotFollowed();
    if (take("**") || take("*")) out.unpacked = true;
    const size_t before = at_;
    skip();
    size_t end = at_;
    while (end < text_.size() && word_char(text_[end])) ++end;
    const std::string_view keyword = text_.substr(at_, end - at_);
    at_ = end;
    const bool named = !keyword.empty() && next_is("=") && !next_is("==");
    if (named)
      take("=");
    else
      at_ = before;
    FlowValue value = ternary();
    if (next_is_word("for") || next_is_word("async")) {
      leave_brackets();
      out.unpacked = true;
      return out;
    }
    out.each.push_back({named ? std::string(keyword) : std::string(), value});
    if (named && keyword == "device") {
      if (value.said.empty()) out.unknown_device = true;
      out.said = value.said;
    } else {
      if (!value.said.empty()) out.said = value.said;
      out.all.push_back(std::move(value));
    }
    if (!take(",")) break;
  }
  if (!take(")")) throw NotFollowed();
  return out;
}

FlowValue FlowReader::method(const FlowValue& value, const std::string& word) {
  const Given arguments = given();
  FlowValue result;
  result.begin = value.begin;
  result.end = at_;
  if (word == "cpu") {
    result.device = "cpu";
  } else if (word == "cuda") {
    if (arguments.all.empty()) result.device = known_.current;
  } else if (word == "numpy") {
    if (value.device != "cpu") moves.push_back({value.begin, value.end, value.compound, "cpu"});
    return result;
  } else if (is_one_of(word, kOfLists)) {
    return result;  // the name is another thing's by now
  } else if (word == "to") {
    const bool type =
        arguments.all.size() == 1 && !arguments.said &&
        (arguments.all[0].device == "" && !torch_functions::after_torch(text_.substr(arguments.all[0].begin)).empty());
    if (type)
      result.device = value.device;
    else if (arguments.said && !arguments.said->empty())
      result.device = *arguments.said;
    else if (arguments.all.size() == 1 && !arguments.all[0].device.empty())
      result.device = arguments.all[0].device;
    else
      result.device = text_.substr(value.end).starts_with(".to(" + known_.words + ")") ? known_.to : std::string();
  } else if (word == "type_as") {
    if (arguments.all.size() == 1) result.device = arguments.all[0].device;
  } else if (word.starts_with("new_") || word.ends_with("_like")) {
    result.device = arguments.said ? *arguments.said : value.device;
  } else if (torch_functions::function_named(word).is(torch_functions::kLeaves)) {
    return result;
  } else if (is_one_of(word, kMeetsAny)) {
    lie_as(result, value);
  } else if (value.device == "cpu" && arguments.all.empty() && is_one_of(word, kOfAllElements)) {
    return result;
  } else {
    std::vector<const FlowValue*> met = flat(arguments.all);
    const bool alone = std::ranges::all_of(met, [](const FlowValue* each) { return each->device.empty(); });
    met.insert(met.begin(), &value);
    lie_as(result, meet(met));
    result.several = alone && is_one_of(word, kOfRows);
  }
  return result;
}

FlowValue FlowReader::call_of_torch(const std::string& name, const Given& arguments) {
  FlowValue result;
  const auto function = torch_functions::function_named(name);
  const auto all = flat(arguments.all);
  const bool constructs = name.empty() || std::isupper(static_cast<unsigned char>(name[0]));
  if (constructs || name.starts_with("is_") || function.is(torch_functions::kLeaves) || arguments.unknown_device)
    return result;
  const bool of_values = name == "tensor" || name == "as_tensor" || name == "asarray";
  if (arguments.said && function.is(torch_functions::kTakesDevice)) {
    result.device = *arguments.said;
  } else if (of_values && (arguments.all.empty() || arguments.all[0].elements.empty())) {
    result.number = !arguments.said;
    return result;
  } else if (function.is(torch_functions::kMakes) && !function.follows_operands()) {
    result.device = "cpu";
  } else {
    const FlowValue together = meet(all);
    const bool loss = name.ends_with("_loss") || name == "cross_entropy";  // without dimensions
    if (!loss || together.device != "cpu") lie_as(result, together);
  }
  return result;
}

// `device`: where its state lies; empty: it has none.
FlowValue FlowReader::call_of_module(const FlowValue& callee, const std::string& device, const Given& arguments) {
  const std::string& name = callee.reference;
  const auto all = flat(arguments.all);
  FlowValue result;
  result.begin = callee.begin;
  result.end = at_;
  if (device.empty()) {
    const FlowValue together = meet(all);
    if (together.device != "cpu") lie_as(result, together);  // a loss has no dimensions
    return result;
  }
  result.several = true;
  if (device == known_.from && known_.modules_come) {
    const auto there = std::ranges::find_if(
        all, [&](const FlowValue* each) { return each->device == known_.to && !each->base.empty(); });
    if (there == all.end()) return result;
    moves.push_back({callee.begin, callee.end, false, (*there)->base + ".device"});
    result.device = known_.to;
    return result;
  }
  if (device != known_.to && known_.from == "cpu") return result;  // it may be what was forgotten
  // It stays where it is: what it is given comes there.
  for (const FlowValue* each : all)
    if (each->number || (!each->device.empty() && each->device != device))
      moves.push_back({each->begin, each->end, each->compound, fmt::format("next({}.parameters()).device", name)});
  result.device = device;
  return result;
}

FlowValue FlowReader::call(const FlowValue& callee) {
  const std::string name = callee.reference;
  const std::string last = name.substr(name.rfind('.') + 1), first = name.substr(0, name.find('.'));
  const Given arguments = given();
  FlowValue result;
  result.begin = callee.begin;
  result.end = at_;
  const auto all = flat(arguments.all);
  if (torch_functions::after_torch(name) == "device") {
    if (arguments.said) result.said = *arguments.said;
    return result;
  }
  // An old constructor, `torch.LongTensor(ids)`, takes no device; `torch.cuda.LongTensor(ids)` has one.
  const std::string_view of_torch = torch_functions::after_torch(name);
  if (of_torch == last && last.ends_with("Tensor")) {
    result.device = "cpu";
    return result;
  }
  if (name != last && (torch_functions::is_torch(first) || is_one_of(first, kParts))) {
    const FlowValue given_back = call_of_torch(last, arguments);
    lie_as(result, given_back);
    result.number = given_back.number;
    return result;
  }
  const auto given_back = [&](FlowValue value) {
    value.begin = result.begin;
    value.end = result.end;
    value.reference.clear();
    value.compound = false;
    return value;
  };
  if (known_.returned && last == known_.returned->first) return given_back(known_.returned->second);
  if (known_.follow && !arguments.unpacked)
    if (auto followed = known_.follow(known_, name, arguments.each)) return given_back(std::move(*followed));
  if (known_.returned && known_.returned->first == "forward") return given_back(known_.returned->second);
  if (const auto module = known_.names.find(name + "()"); module != known_.names.end())
    return call_of_module(callee, module->second, arguments);
  if (last == "abs" || last == "round") {
    if (all.size() == 1) result.device = all[0]->device;
    return result;
  }
  // A function of the program's, or a module: what is given lies on one device, and most often so does the result.
  const bool tensors = std::any_of(all.begin(), all.end(), [](const FlowValue* each) { return !each->device.empty(); });
  const bool there = std::all_of(
      all.begin(), all.end(), [&](const FlowValue* each) { return each->device.empty() || each->device == known_.to; });
  static constexpr std::string_view kPlain[] = {"len",     "int",       "float", "str",  "bool",  "range", "isinstance",
                                                "print",   "enumerate", "zip",   "list", "tuple", "dict",  "getattr",
                                                "hasattr", "type",      "set",   "min",  "max",   "sum",   "append"};
  if (tensors && there && !is_one_of(last, kPlain) && first != "np" && first != "numpy") result.device = known_.to;
  return result;
}

}  // namespace devtrace::report::verdict
