#include "report/verdict/device_flow.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "common/torch_functions.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/source_line.h"
#include "report/verdict/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

struct NotFollowed {};  // a lambda, a comprehension's inside, what is no expression

using Names = std::map<std::string, std::string, std::less<>>;

template <size_t kCount>
bool is_one_of(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kPlaceless[] = {"shape", "dtype", "ndim", "layout", "requires_grad", "is_cuda", "names"};
constexpr std::string_view kViews[] = {"T", "mT", "H", "real", "imag", "data"};
// Methods of tensors that take tensors of any device.
constexpr std::string_view kMeetsAny[] = {"copy_", "expand_as", "view_as", "reshape_as", "set_"};
// Of all elements: a tensor without dimensions, which may meet any device where it lies on the CPU.
constexpr std::string_view kOfAllElements[] = {"sum", "mean", "prod",   "max", "min", "norm",
                                               "std", "var",  "median", "any", "all"};
constexpr std::string_view kTorch[] = {"torch", "F", "nn", "functional"};

// One expression of a statement, read from the left to the right.
class Reader {
 public:
  Reader(const DeviceFlow& flow, std::string_view text, size_t at, std::string_view from, std::string_view to,
         std::string_view words)
      : flow_(flow), text_(text), at_(at), from_(from), to_(to), words_(words) {}

  // `a, b`, too.
  FlowValue whole() {
    FlowValue value = display('\0');
    return value;
  }
  FlowValue one() { return ternary(); }
  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (std::string_view(" \t\r\n\\").find(text_[at_]) != std::string_view::npos)
        ++at_;
      else
        return;
    }
  }
  size_t at() const { return at_; }
  bool at_end() {
    skip();
    return at_ >= text_.size();
  }
  bool take(std::string_view symbol) {
    skip();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  bool take_word(std::string_view word) {
    skip();
    const size_t end = at_ + word.size();
    if (!text_.substr(at_).starts_with(word) || (end < text_.size() && word_char(text_[end]))) return false;
    at_ = end;
    return true;
  }

  std::vector<FlowMove> moves;

 private:
  bool next_is(std::string_view symbol) {
    skip();
    return text_.substr(at_).starts_with(symbol);
  }
  bool next_is_word(std::string_view word) {
    const size_t before = at_;
    const bool is = take_word(word);
    at_ = before;
    return is;
  }

  // Of values that one operation is given: where its result lies.
  FlowValue meet(const std::vector<const FlowValue*>& values) {
    const FlowValue *odd = nullptr, *there = nullptr;
    std::string other;
    for (const FlowValue* each : values) {
      if (each->device == from_)
        odd = each;
      else if (each->device == to_ && (!there || there->base.empty()))
        there = each;
      else if (!each->device.empty() && each->device != to_)
        other = each->device;
    }
    FlowValue result;
    if (!other.empty()) {
      if (!odd && !there) result.device = other;
      return result;
    }
    if (!odd && !there) return result;
    result.device = there ? to_ : from_;
    result.base = there ? there->base : odd->base;
    if (!odd || !there) return result;
    const std::string device = there->base.empty() ? words_ : there->base + ".device";
    if (device.empty()) throw NotFollowed();
    for (const FlowValue* each : values)
      if (each->device == from_) moves.push_back({each->begin, each->end, each->compound, device});
    return result;
  }

  FlowValue ternary() {
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

  struct Operator {
    std::string_view text;
    int rank;
    bool meets;
  };
  // The operator that comes next; longer ones first.
  const Operator* next_operator() {
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

  FlowValue binary(int least) {
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

  FlowValue unary() {
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

  void literal() {
    const char quote = text_[at_];
    const bool triple = text_.substr(at_, 3) == std::string(3, quote);
    const size_t width = triple ? 3 : 1;
    const std::string end(width, quote);
    at_ += width;
    while (at_ < text_.size() && text_.substr(at_, width) != end) at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) throw NotFollowed();
    at_ += width;
  }

  FlowValue atom() {
    skip();
    FlowValue value;
    value.begin = at_;
    if (at_ >= text_.size()) throw NotFollowed();
    const char c = text_[at_];
    if (c == '(' || c == '[' || c == '{') {
      ++at_;
      const char closing = c == '(' ? ')' : c == '[' ? ']' : '}';
      const size_t inside = at_;
      FlowValue shown = c == '{' ? braces() : display(closing);
      const bool grouped = c == '(' && shown.elements.empty() && text_.substr(inside, at_ - inside) != ")";
      if (grouped) {
        value = shown;
        value.compound = false;
      } else {
        value.elements = std::move(shown.elements);
      }
      value.begin = inside - 1;
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
      const size_t begin = at_;
      literal();
      const std::string_view inside = text_.substr(begin + 1, at_ - begin - 2);
      if (inside == "cpu" || inside.starts_with("cuda:")) value.said = inside;
      skip();
      while (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
        literal();
        skip();
      }
      value.end = at_;
      return value;
    }
    if (end == at_) throw NotFollowed();
    value.reference = text_.substr(at_, end - at_);
    at_ = value.end = end;
    known(value);
    return value;
  }

  void known(FlowValue& value) const {
    const std::string name = with_one_quote(value.reference);
    if (const auto found = flow_.names.find(name); found != flow_.names.end()) {
      value.device = found->second;
      value.base = value.reference;
    }
    if (const auto found = flow_.devices.find(name); found != flow_.devices.end()) value.said = found->second;
  }

  FlowValue braces() {
    FlowValue none;
    for (int depth = 1; depth > 0;) {
      if (at_end()) throw NotFollowed();
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        literal();
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      ++at_;
    }
    return none;
  }

  // `a, b` up to what closes it; a single expression without a comma is itself.
  FlowValue display(char closing) {
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
        braces();
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
    if (value.elements.size() == 1 && !comma && closing != ']') {
      FlowValue only = std::move(value.elements[0]);
      return only;
    }
    return value;
  }

  FlowValue primary() {
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

  FlowValue attribute(const FlowValue& value, const std::string& word, size_t end) const {
    FlowValue result;
    result.begin = value.begin;
    result.end = end;
    if (!value.reference.empty()) result.reference = value.reference + "." + word;
    if (!value.device.empty()) {
      if (word == "device") result.said = value.device;
      if (is_one_of(word, kViews)) {
        result.device = value.device;
        result.base = value.base;
      }
      if (is_one_of(word, kPlaceless) || word == "device") result.reference.clear();
      return result;
    }
    if (!result.reference.empty()) known(result);
    return result;
  }

  FlowValue subscript(const FlowValue& value) {
    const size_t open = at_;
    take("[");
    const size_t begin = at_;
    std::vector<size_t> ends;  // of its parts, which commas stand between
    int depth = 0;
    for (const Scan scan(text_); at_ < text_.size() && depth >= 0; ++at_) {
      if (!scan.code[at_]) continue;
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == ']')) ends.push_back(at_);
      depth += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
    }
    if (depth >= 0) throw NotFollowed();
    const size_t end = at_ - 1;
    const std::string_view inside = text_.substr(begin, end - begin);
    const bool number = !inside.empty() && inside.find_first_not_of("-0123456789") == inside.npos;
    FlowValue result;
    result.begin = value.begin;
    result.end = end + 1;
    if (!(number && value.device == "cpu")) {  // of a vector that may meet any device
      result.device = value.device;
      result.base = value.base;
    }
    if (!value.reference.empty()) result.reference = value.reference + std::string(text_.substr(open, end + 1 - open));
    if (result.device.empty() && !result.reference.empty()) known(result);
    if (!value.device.empty() && !number) {
      std::vector<FlowValue> indices;
      for (size_t part = begin; const size_t stop : ends) {
        at_ = part;
        // A slice is no expression: its parts are numbers.
        if (text_.substr(part, stop - part).find(':') == std::string_view::npos && part < stop) {
          indices.push_back(ternary());
          if (skip(); at_ != stop) throw NotFollowed();
        }
        part = stop + 1;
      }
      std::vector<const FlowValue*> met = {&value};
      for (const FlowValue* each : pointers(indices)) {
        result.indexed = result.indexed || !each->device.empty();
        if (each->device != "cpu") met.push_back(each);  // one on the CPU goes with every tensor
      }
      const FlowValue together = meet(met);
      result.device = together.device;
      result.base = together.base;
      result.reference.clear();
    }
    at_ = end + 1;
    if (value.device.empty() && number && inside.size() == 1 &&
        static_cast<size_t>(inside[0] - '0') < value.elements.size())
      result.device = value.elements[static_cast<size_t>(inside[0] - '0')].device;
    return result;
  }

  static std::vector<const FlowValue*> flat(const std::vector<const FlowValue*>& values) {
    std::vector<const FlowValue*> out;
    for (const FlowValue* each : values) {
      if (each->elements.empty()) {
        out.push_back(each);
        continue;
      }
      std::vector<const FlowValue*> inner;
      for (const FlowValue& element : each->elements) inner.push_back(&element);
      for (const FlowValue* element : flat(inner)) out.push_back(element);
    }
    return out;
  }

  struct Given {
    std::vector<FlowValue> all;
    std::optional<std::string> said;  // device=, or what names a device: known or not
    bool unknown_device = false;
  };
  Given given() {
    Given out;
    take("(");
    while (!next_is(")")) {
      if (at_end()) throw NotFollowed();
      if (!take("**")) take("*");
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
        braces();
        return out;
      }
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

  static std::vector<const FlowValue*> pointers(const std::vector<FlowValue>& values) {
    std::vector<const FlowValue*> out;
    for (const FlowValue& each : values) out.push_back(&each);
    return flat(out);
  }

  FlowValue method(const FlowValue& value, const std::string& word) {
    const Given arguments = given();
    FlowValue result;
    result.begin = value.begin;
    result.end = at_;
    if (word == "cpu") {
      result.device = "cpu";
    } else if (word == "to") {
      const bool type = arguments.all.size() == 1 && !arguments.said &&
                        (arguments.all[0].device == "" && text_.substr(arguments.all[0].begin).starts_with("torch."));
      if (type)
        result.device = value.device;
      else if (arguments.said && !arguments.said->empty())
        result.device = *arguments.said;
      else if (arguments.all.size() == 1 && !arguments.all[0].device.empty())
        result.device = arguments.all[0].device;
      else
        result.device = text_.substr(value.end).starts_with(".to(" + words_ + ")") ? to_ : std::string();
    } else if (word == "type_as") {
      if (arguments.all.size() == 1) result.device = arguments.all[0].device;
    } else if (word.starts_with("new_") || word.ends_with("_like")) {
      result.device = arguments.said ? *arguments.said : value.device;
    } else if (torch_functions::function_named(word).is(torch_functions::kLeaves)) {
      return result;
    } else if (is_one_of(word, kMeetsAny)) {
      result.device = value.device;
      result.base = value.base;
    } else if (value.device == "cpu" && arguments.all.empty() && is_one_of(word, kOfAllElements)) {
      return result;
    } else {
      std::vector<const FlowValue*> met = pointers(arguments.all);
      met.insert(met.begin(), &value);
      const FlowValue together = meet(met);
      result.device = together.device;
      result.base = together.base;
    }
    return result;
  }

  FlowValue call(const FlowValue& callee) {
    const std::string name = callee.reference;
    const std::string last = name.substr(name.rfind('.') + 1), first = name.substr(0, name.find('.'));
    const Given arguments = given();
    FlowValue result;
    result.begin = callee.begin;
    result.end = at_;
    const auto all = pointers(arguments.all);
    const auto function = torch_functions::function_named(last);
    if (name == "torch.device") {
      if (arguments.said) result.said = *arguments.said;
      return result;
    }
    if (name != last && is_one_of(first, kTorch)) {
      if (std::isupper(static_cast<unsigned char>(last.empty() ? 'A' : last[0]))) return result;
      if (last.starts_with("is_") || function.is(torch_functions::kLeaves)) return result;
      if (arguments.unknown_device) return result;
      const bool from_values = last == "tensor" || last == "as_tensor" || last == "asarray";
      if (arguments.said && function.is(torch_functions::kTakesDevice)) {
        result.device = *arguments.said;
      } else if (from_values && (arguments.all.empty() || arguments.all[0].elements.empty())) {
        return result;  // of a number: without dimensions
      } else if (function.is(torch_functions::kMakes) && !function.follows_operands()) {
        result.device = "cpu";
      } else {
        const FlowValue together = meet(all);
        const bool loss = last.ends_with("_loss") || last == "cross_entropy";
        if (loss && together.device == "cpu") return result;
        result.device = together.device;
        result.base = together.base;
      }
      return result;
    }
    if (flow_.returned && (last == flow_.returned->first || flow_.returned->first == "forward")) {
      FlowValue given_back = flow_.returned->second;
      given_back.begin = result.begin;
      given_back.end = result.end;
      given_back.reference.clear();
      given_back.compound = false;
      return given_back;
    }
    if (const auto module = flow_.names.find(name + "()"); module != flow_.names.end()) {
      if (module->second != to_) return result;
      FlowValue state;
      state.device = module->second;
      state.base = fmt::format("next({}.parameters())", name);
      auto met = all;
      met.push_back(&state);
      result.device = meet(met).device;
      return result;
    }
    if (last == "abs" || last == "round") {
      if (all.size() == 1) result.device = all[0]->device;
      return result;
    }
    // A function of the program's, or a module: what is given lies on one device, and most often so does the result.
    const bool tensors =
        std::any_of(all.begin(), all.end(), [](const FlowValue* each) { return !each->device.empty(); });
    const bool there = std::all_of(all.begin(), all.end(),
                                   [&](const FlowValue* each) { return each->device.empty() || each->device == to_; });
    static constexpr std::string_view kPlain[] = {
        "len",   "int",  "float",   "str",     "bool", "range", "isinstance", "print", "enumerate", "zip",   "list",
        "tuple", "dict", "getattr", "hasattr", "type", "set",   "min",        "max",   "sum",       "append"};
    if (tensors && there && !is_one_of(last, kPlain) && first != "np" && first != "numpy") result.device = to_;
    return result;
  }

  const DeviceFlow& flow_;
  std::string_view text_;
  size_t at_;
  std::string from_, to_, words_;
};

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
    return own.starts_with(name) && (own.size() == name.size() || own[name.size()] == '.' || own[name.size()] == '[');
  });
  devices.erase(std::string(name));
}

void DeviceFlow::assign(std::string_view targets, const FlowValue& value) {
  std::string_view text = trimmed(targets);
  while (text.starts_with('(') && text.ends_with(')')) text = trimmed(text.substr(1, text.size() - 2));
  const Scan scan(text);
  std::vector<std::string_view> each;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at)
    if (at == text.size() || (scan.code[at] && scan.depth[at] == 0 && text[at] == ',')) {
      const std::string_view one = trimmed(text.substr(begin, at - begin));
      if (!one.empty()) each.push_back(one);
      begin = at + 1;
    }
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
  if (!value.device.empty()) names[name] = value.device;
  if (!value.said.empty()) devices[name] = value.said;
}

// `x[places] = value`: all three lie on one device, but for places on the CPU.
void DeviceFlow::store(std::string_view text, std::string_view target, const FlowValue& value,
                       std::vector<FlowMove>& moves) const {
  const size_t begin = skip_blanks(target, 0) + static_cast<size_t>(target.data() - text.data());
  const std::string_view up_to = text.substr(0, begin + trimmed(target).size());
  if (!up_to.ends_with(']')) return;
  Reader reader(*this, up_to, begin, from_, to_, words_);
  try {
    const FlowValue there = reader.one();
    if (!reader.at_end() || !there.indexed || there.device != to_) return;
    const auto of_itself = [&](const FlowMove& each) { return each.begin == there.begin; };
    if (std::ranges::any_of(reader.moves, of_itself)) return;  // what is written to stays
    moves.insert(moves.end(), reader.moves.begin(), reader.moves.end());
    const std::string device = there.base.empty() ? words_ : there.base + ".device";
    if (value.device == from_ && !device.empty()) moves.push_back({value.begin, value.end, value.compound, device});
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
  if (body.empty() || body[0] == '#' || is_one_of(trimmed(body), kNothing)) return std::nullopt;
  for (const std::string_view word : {"import", "from", "global", "nonlocal", "del", "raise", "except", "with", "yield",
                                      "async", "assert", "@", "match", "case"})
    if (begins(word)) return std::nullopt;
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
    if (in != body.npos) assign(body.substr(3, in - 3), {});
    return std::nullopt;
  }
  Reader reader(*this, read, value_at, from_, to_, words_);
  FlowValue value;
  try {
    value = reader.whole();
    if (!reader.at_end()) throw NotFollowed();
  } catch (const NotFollowed&) {
    for (const std::string_view target : targets) assign(target, {});
    return std::nullopt;
  }
  if (returns) result_ = value;
  if (!in_place)
    for (const std::string_view target : targets) store(text, target, value, reader.moves);
  if (in_place) {
    // What it writes to stays where it is.
    const std::string name = with_one_quote(trimmed(targets[0]));
    const auto own = names.find(name);
    if (own != names.end() && own->second == to_ && value.device == from_)
      reader.moves.push_back({value.begin, value.end, value.compound, name + ".device"});
  } else {
    for (const std::string_view target : targets) assign(target, value);
  }
  if (reader.moves.empty()) return std::nullopt;
  std::string out(text);
  std::vector<std::pair<size_t, std::string>> insertions;
  for (const auto& move : reader.moves) {
    insertions.emplace_back(move.end, fmt::format("{}.to({})", move.compound ? ")" : "", move.device));
    if (move.compound) insertions.emplace_back(move.begin, "(");
  }
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [place, inserted] : insertions) out.insert(place, inserted);
  return out;
}

}  // namespace devtrace::report::verdict
