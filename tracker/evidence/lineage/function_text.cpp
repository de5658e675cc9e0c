#include "tracker/evidence/lineage/function_text.h"

#include <algorithm>
#include <string_view>

#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "common/torch_functions.h"
#include "tracker/evidence/source/syntax_tree.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr int kLongestHead = 60;        // lines of a function's parameters
constexpr int kLongestFunction = 3000;  // lines

bool blank(std::string_view line) {
  const size_t at = indentation(line);
  return at == line.size() || line[at] == '#';
}

// `def name(` or `async def name(`.
bool defines(std::string_view line, std::string_view name) {
  line.remove_prefix(indentation(line));
  if (line.starts_with("async ")) line.remove_prefix(6);
  if (!line.starts_with("def ")) return false;
  line.remove_prefix(4);
  line.remove_prefix(indentation(line));
  return line.starts_with(name) && (line.size() == name.size() || !word_char(line[name.size()]));
}

// The line of `def`; 0: there is none.
int first_line(const Lines& lines, const std::string& name, int line) {
  const size_t inside = indentation(lines[line - 1]);
  for (int first = line; first > std::max(0, line - kLongestFunction); --first)
    if (defines(lines[first - 1], name) && (first == line || indentation(lines[first - 1]) < inside)) return first;
  return 0;
}

std::string joined(const Lines& lines, int first, int last) {
  std::string text;
  for (int line = first; line <= std::min(last, static_cast<int>(lines.size())); ++line) text += lines[line - 1] + '\n';
  return text;
}

// From `def` to its colon; empty where it is cut.
std::string head_of(const Lines& lines, int first) {
  const std::string text = joined(lines, first, first + kLongestHead - 1);
  const Scan scan(text);
  for (size_t at = 0; at < text.size(); ++at)
    if (scan.code[at] && scan.depth[at] == 0 && text[at] == ':') return text.substr(0, at + 1);
  return {};
}

void read_parameters(const Api& api, const std::string& head, FunctionText& function) {
  const SyntaxTree tree(api, std::string(trimmed(head)) + " pass\n", SyntaxTree::kStatements);
  if (!tree.root()) return;
  const std::vector<Ref> body = tree.parts(tree.root(), "body");
  const Ref arguments = body.size() == 1 ? tree.part(body[0].get(), "args") : Ref();
  if (!arguments) return;
  for (const char* kind : {"posonlyargs", "args", "kwonlyargs"})
    for (const Ref& each : tree.parts(arguments.get(), kind))
      function.parameters.push_back(tree.name(each.get(), "arg"));
  const auto add_defaults = [&](size_t end, const std::vector<Ref>& of) {
    for (size_t i = 0; i < of.size(); ++i)
      if (const size_t at = end - of.size() + i; at < end && tree.number(of[i].get(), "lineno") > 0)
        function.defaults.emplace(function.parameters[at], tree.text(of[i].get()));
  };
  const size_t all = function.parameters.size(), named = tree.parts(arguments.get(), "kwonlyargs").size();
  add_defaults(all - named, tree.parts(arguments.get(), "defaults"));
  add_defaults(all, tree.parts(arguments.get(), "kw_defaults"));
  function.method =
      !function.parameters.empty() && (function.parameters[0] == "self" || function.parameters[0] == "cls");
}

// A statement in the text of a function.
struct Statement {
  std::string_view text;  // from its first word on
  const Scan& scan;       // of the function's text
  size_t begin;           // of the statement, in that

  bool code(size_t at) const { return scan.code[begin + at]; }
  bool outside_of_brackets(size_t at) const { return code(at) && scan.depth[begin + at] == 0; }
};

// The end of what stands before the first `=` that assigns. 0: nothing is assigned. An operation in place (`x += 1`)
// gives a tensor no other device.
size_t end_of_targets(const Statement& statement) {
  constexpr std::string_view kInPlace = "+-*/%&|^@";
  const std::string_view text = statement.text;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=' || !statement.outside_of_brackets(at)) continue;
    const bool assigns = is_assignment(text, at) && at > 0 && kInPlace.find(text[at - 1]) == kInPlace.npos;
    return assigns ? at : 0;
  }
  return 0;
}

// Calls visit(name) for each variable that stands there by itself: neither an attribute nor something that is indexed
// or called.
template <class Visit>
void each_variable(const Statement& statement, size_t begin, size_t end, const Visit& visit) {
  const std::string_view text = statement.text;
  for (size_t at = begin; at < end;) {
    if (!word_char(text[at])) {
      ++at;
      continue;
    }
    const size_t word = at;
    while (at < end && word_char(text[at])) ++at;
    const bool attribute = word > 0 && text[word - 1] == '.';
    const bool of_another = at < text.size() && std::string_view(".[(").find(text[at]) != std::string_view::npos;
    if (statement.code(word) && !attribute && !of_another) visit(text.substr(word, at - word));
  }
}

// Where an expression of attributes and subscripts ends that begins with the word which ends at `at`.
size_t end_of_reference(const Statement& statement, size_t at, size_t end) {
  const std::string_view text = statement.text;
  while (at < end && (text[at] == '.' || text[at] == '[')) {
    if (text[at] == '.') {
      for (++at; at < end && word_char(text[at]);) ++at;
      continue;
    }
    const int outside = statement.scan.depth[statement.begin + at];
    for (++at; at < end && statement.scan.depth[statement.begin + at] > outside;) ++at;
    at = std::min(at + 1, end);
  }
  return at;
}

// Calls visit(expression) for what stands before the `=`: `x`, `self.x`, `batch["x"]`.
template <class Visit>
void each_target(const Statement& statement, size_t end, const Visit& visit) {
  const std::string_view text = statement.text;
  for (size_t at = 0; at < end;) {
    const size_t word = at;
    while (at < end && word_char(text[at])) ++at;
    if (at > word && statement.code(word)) {
      at = end_of_reference(statement, at, end);
      visit(with_one_quote(text.substr(word, at - word)));
    } else if (at == word) {
      ++at;
    }
  }
}

// Calls visit(name) for what the statement gives a value.
template <class Visit>
void each_bound(const Statement& statement, const Visit& visit) {
  const std::string_view text = statement.text;
  if (text.starts_with("import ") || text.starts_with("from ")) return each_variable(statement, 0, text.size(), visit);
  if (text.starts_with("for ") || text.starts_with("async for "))
    return each_variable(statement, 0, std::min(text.find(" in "), text.size()), visit);
  for (const std::string_view word : {" as ", ":="}) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      size_t begin = at + word.size(), end = begin;
      if (word == " as ") {
        while (end < text.size() && word_char(text[end])) ++end;
      } else {
        for (end = at; end > 0 && text[end - 1] == ' ';) --end;
        for (begin = end; begin > 0 && word_char(text[begin - 1]);) --begin;
      }
      if (statement.code(at + 1)) visit(text.substr(begin, end - begin));
    }
  }
  size_t end = end_of_targets(statement);
  for (size_t at = 0; at < end; ++at)  // `x: Tensor = y`
    if (text[at] == ':' && statement.outside_of_brackets(at)) end = at;
  each_target(statement, end, visit);
}

void read_bindings(const Lines& lines, FunctionText& function) {
  function.text = joined(lines, function.first, function.last);
  function.scan = Scan(function.text);
  const std::string& text = function.text;
  const Scan& scan = function.scan;
  size_t begin = 0, next = 0;
  int number = function.first, line = function.first;
  // A statement ends where the next one begins: at the first word of a line outside of brackets and texts.
  const auto take = [&](size_t end) {
    const auto add = [&](std::string_view name) {
      std::vector<int>& known = function.bound.try_emplace(std::string(name)).first->second;
      if (known.empty() || known.back() != number) known.push_back(number);
    };
    if (begin < end) each_bound({std::string_view(text).substr(begin, end - begin), scan, begin}, add);
  };
  for (; next < text.size(); ++line) {
    const size_t end = text.find('\n', next);
    const size_t first = next + indentation(std::string_view(text).substr(next, end - next));
    constexpr std::string_view kGoesOn = ")]}";
    if (first < end && scan.code[first] && scan.depth[first] == 0 && kGoesOn.find(text[first]) == kGoesOn.npos) {
      take(first);
      begin = first;
      number = line;
    }
    next = end + 1;
  }
  take(text.size());
}

}  // namespace

const std::vector<int>& FunctionText::bindings(const std::string& variable) const {
  static const auto& none = *new std::vector<int>;
  const auto found = bound.find(variable);
  return found == bound.end() ? none : found->second;
}

size_t FunctionText::begin_of(int line) const {
  size_t at = 0;
  for (int each = first; each < line && at < text.size(); ++each) at = text.find('\n', at) + 1;
  return at;
}

std::string_view FunctionText::text_of(int line) const {
  const std::string_view rest = std::string_view(text).substr(begin_of(line));
  return rest.substr(0, rest.find('\n'));
}

bool FunctionText::begins_statement(int line) const {
  const size_t begin = begin_of(line), word = text.find_first_not_of(" \t", begin);
  return word != text.npos && scan.code[word] && scan.depth[word] == 0 && (begin < 2 || text[begin - 2] != '\\');
}

int FunctionText::next_statement(int line) const {
  do ++line;
  while (line <= last && !begins_statement(line));
  return line;
}

std::optional<int> FunctionText::settled_above(const std::vector<int>& lines, int line) const {
  const auto below = std::lower_bound(lines.begin(), lines.end(), line);
  if (below == lines.begin()) return std::nullopt;
  const int last = *(below - 1);
  const size_t depth = indentation(text_of(last)), deepest = indentation(text_of(line));
  for (int at = last + 1; at <= line; ++at) {
    if (!begins_statement(at) || blank(text_of(at))) continue;
    const size_t own = indentation(text_of(at));
    if (own < depth) return std::nullopt;  // that line may have been left out
    const std::string_view statement = text_of(at).substr(own);
    const bool loop =
        statement.starts_with("for ") || statement.starts_with("async for ") || statement.starts_with("while ");
    if (loop && own < deepest && below != lines.end()) return std::nullopt;  // it may come by again
  }
  return last;
}

// What stands behind each read of the name below that line, up to where a line has given it a new value.
std::vector<std::string_view> FunctionText::behind_reads_below(int line, std::string_view name) const {
  std::vector<std::string_view> behind;
  size_t bound_until = 0;  // the end of the line that gave it a new value
  for (size_t at = begin_of(line + 1); (at = text.find(name, at)) != text.npos; at += name.size()) {
    const size_t end = at + name.size();
    const bool goes_on = word_char(name.back()) && word_char(text[end]);
    if (!scan.code[at] || at == 0 || word_char(text[at - 1]) || text[at - 1] == '.' || goes_on) continue;
    if (bound_until != 0 && at > bound_until) break;
    const size_t next = std::min(text.find_first_not_of(' ', end), text.size() - 1);
    if (text[next] != '=' || !is_assignment(text, next))
      behind.push_back(std::string_view(text).substr(end));
    else if (scan.depth[at] == 0)  // else it is a keyword argument of that name
      bound_until = text.find('\n', at);
  }
  return behind;
}

static bool is_by_numpy(std::string_view behind_read) {
  return behind_read.starts_with(".numpy(");
}

bool FunctionText::reads_below(int line, std::string_view variable) const {
  const auto reads = behind_reads_below(line, variable);
  return !reads.empty() && std::none_of(reads.begin(), reads.end(), is_by_numpy);
}

bool FunctionText::computes_below(int line, std::string_view name) const {
  constexpr std::string_view kAsks[] = {".to(",    ".cuda(", ".cpu(",  ".item(",  ".tolist(", ".shape",
                                        ".device", ".dtype", ".size(", ".numel(", ".dim(",    ".ndim"};
  const auto computes = [&](std::string_view read) {
    return std::none_of(std::begin(kAsks), std::end(kAsks),
                        [&](std::string_view ask) { return read.starts_with(ask); });
  };
  const auto reads = behind_reads_below(line, name);
  return std::any_of(reads.begin(), reads.end(), computes) && std::none_of(reads.begin(), reads.end(), is_by_numpy);
}

std::vector<std::string> FunctionText::methods_called_below(int line) const {
  std::vector<std::string> called;
  for (const std::string_view behind : behind_reads_below(line, "self.")) {
    const auto end = std::ranges::find_if_not(behind, word_char);
    if (end != behind.end() && *end == '(') called.emplace_back(behind.begin(), end);
  }
  return called;
}

// Is that name, a variable or an attribute, read in those bytes? As a keyword's name it is not.
bool FunctionText::reads_between(size_t begin, size_t end, std::string_view name) const {
  for (size_t at = begin; (at = text.find(name, at)) < end; at += name.size()) {
    const size_t behind = at + name.size();
    const bool part = at > 0 && (word_char(text[at - 1]) || text[at - 1] == '.');
    if (!scan.code[at] || part || (behind < text.size() && word_char(text[behind]))) continue;
    const size_t next = std::min(text.find_first_not_of(' ', behind), text.size() - 1);
    if (text[next] != '=' || !is_assignment(text, next)) return true;
  }
  return false;
}

bool FunctionText::works_with(std::string_view parameter, int line) const {
  std::vector<std::string> names{std::string(parameter)};
  size_t begin = 0;  // behind the colon that ends the head
  while (begin < text.size() && !(scan.code[begin] && scan.depth[begin] == 0 && text[begin] == ':')) ++begin;
  int at = first + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin), '\n'));
  while (begin < text.size() && at <= line) {
    at = next_statement(at);
    const size_t end = at > last ? text.size() : begin_of(at);
    const std::string_view statement = std::string_view(text).substr(begin, end - begin);
    const size_t value = Scan(statement).value_begins;
    const std::string_view given = trimmed(statement.substr(value));
    const bool keeps = value != 0 && trimmed(statement).starts_with("self.") &&
                       (given.find('(') == given.npos || torch_functions::after_torch(given).starts_with("device("));
    const auto reads = [&](const std::string& name) { return reads_between(begin + value, end, name); };
    const bool read = std::any_of(names.begin(), names.end(), reads);
    if (read && !keeps) return true;
    for (size_t target = 0; read && target < value;) {
      const size_t comma = std::min(statement.find_first_of(",=", target), value);
      names.emplace_back(trimmed(statement.substr(target, comma - target)));
      target = comma + 1;
    }
    begin = end;
  }
  return false;
}

std::vector<int> FunctionText::discarded_moves(std::string_view name) const {
  std::vector<int> lines;
  int line = first;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = text.find('\n', begin), word = text.find_first_not_of(" \t", begin);
    if (word < end && text.compare(word, name.size(), name) == 0 && begins_statement(line)) {
      const std::string_view rest = std::string_view(text).substr(word + name.size());
      const bool moves = rest.starts_with(".to(") || rest.starts_with(".cuda(");
      size_t close = moves ? text.find('(', word + name.size()) + 1 : text.size();
      while (close < text.size() && !(scan.code[close] && text[close] == ')' && scan.depth[close] == 0)) ++close;
      const size_t next = std::min(text.find_first_not_of(" \t", close + 1), text.size());
      if (next < text.size() && (text[next] == '\n' || text[next] == '#')) lines.push_back(line);
    }
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> FunctionText::branches_around(int line, int other) const {
  constexpr std::string_view kBranches[] = {"if ", "elif ", "else:", "except", "case "};
  const auto ends_before = [&](size_t depth, int below) {
    for (int at = line + 1; at <= below; ++at)
      if (begins_statement(at) && !blank(text_of(at)) && indentation(text_of(at)) <= depth) return true;
    return false;
  };
  std::vector<std::string> branches;
  size_t depth = indentation(text_of(line));
  for (int at = line - 1; at > first && depth > 0; --at) {
    const std::string_view head = text_of(at);
    if (!begins_statement(at) || blank(head) || indentation(head) >= depth) continue;
    depth = indentation(head);
    const std::string_view statement = trimmed(head);
    const bool branch = std::any_of(std::begin(kBranches), std::end(kBranches),
                                    [&](std::string_view word) { return statement.starts_with(word); });
    if (branch && (other < at || ends_before(depth, other))) branches.emplace_back(statement);
  }
  return branches;
}

std::pair<size_t, size_t> FunctionText::value_in(int line) const {
  const int next = next_statement(line);
  const size_t begin = begin_of(line), end = next > last ? text.size() : begin_of(next);
  const size_t value = begin + Scan(std::string_view(text).substr(begin, end - begin)).value_begins;
  return {value == begin ? end : value, end};
}

bool FunctionText::begins_as_number(const std::string& variable) const {
  return std::ranges::any_of(bindings(variable), [&](int line) {
    const auto [begin, end] = value_in(line);
    const std::string_view value = trimmed(std::string_view(text).substr(begin, end - begin));
    return !value.empty() && value.find_first_not_of("0123456789.") == value.npos;
  });
}

bool FunctionText::binds_from_itself(int line, std::string_view variable) const {
  const auto [value, end] = value_in(line);
  return reads_between(value, end, variable);
}

bool FunctionText::computes_from_itself(int line, std::string_view variable) const {
  const auto [value, end] = value_in(line);
  const std::string_view given = std::string_view(text).substr(value, end - value);
  if (given.find("device") != given.npos || !reads_between(value, end, variable)) return false;
  for (size_t at = value; (at = text.find('(', at)) < end; ++at) {
    size_t name = at;
    while (name > value && (word_char(text[name - 1]) || text[name - 1] == '.')) --name;
    const std::string_view callee = std::string_view(text).substr(name, at - name);
    if (!scan.code[at] || (callee.empty() && text[at - 1] != ')' && text[at - 1] != ']')) continue;
    const size_t dot = callee.find('.'), method = callee.rfind('.') + 1;
    const std::string_view root = callee.substr(0, dot), own = callee.substr(method);
    const bool known = root.empty() || root == variable || root == "F" || torch_functions::is_torch(root);
    const bool stays = method == 0 ? own == "len" || own == "int" || own == "float" : known;
    if (!stays || own == "to" || own == "cuda" || own == "cpu" || own == "type") return false;
  }
  return true;
}

std::string name_in_a_call(std::string_view function) {
  const size_t dot = function.rfind('.');
  const std::string_view own = function.substr(dot + 1);  // npos + 1 is 0
  if (own != "__init__") return std::string(own);
  const std::string_view type = function.substr(0, dot == function.npos ? 0 : dot);
  return std::string(type.substr(type.rfind('.') + 1));
}

bool is_comprehension(std::string_view function) {
  return function.ends_with("comp>") || function.ends_with("<genexpr>");
}

const FunctionText* FunctionTexts::at(const std::string& file, const Lines& lines, const std::string& name, int line) {
  const int count = static_cast<int>(lines.size());
  const std::string own = name.substr(name.rfind('.') + 1);
  const bool module = own == "<module>";
  if (line < 1 || line > count || (own.starts_with('<') && !module)) return nullptr;
  const int first = module ? 0 : first_line(lines, own, line);
  if (first == 0 && !module) return nullptr;
  const auto [entry, fresh] = read_.try_emplace({file, first});
  std::optional<FunctionText>& function = entry->second;
  if (!fresh) return function ? &*function : nullptr;
  const std::string head = module ? "" : head_of(lines, first);
  if (head.empty() && !module) return nullptr;
  function.emplace().module = module;
  function->last = count;
  if (!module) {
    function->first = first;
    function->last = first + static_cast<int>(std::count(head.begin(), head.end(), '\n'));
    read_parameters(api_, head, *function);
    const size_t outside = indentation(lines[first - 1]);
    const auto belongs = [&](const std::string& text) { return blank(text) || indentation(text) > outside; };
    while (function->last < count && belongs(lines[function->last])) ++function->last;
  }
  read_bindings(lines, *function);
  return &*function;
}

const FunctionText* FunctionTexts::beside(const FunctionText& method, const std::string& file, const Lines& lines,
                                          const std::string& name) {
  const int count = static_cast<int>(lines.size());
  if (method.module || method.first > count) return nullptr;
  const size_t indent = indentation(lines[method.first - 1]);
  const auto of_class = [&](int line) { return blank(lines[line - 1]) || indentation(lines[line - 1]) >= indent; };
  int line = method.first;
  while (line > 1 && of_class(line - 1)) --line;
  for (; line <= count && of_class(line); ++line)
    if (indentation(lines[line - 1]) == indent && defines(lines[line - 1], name)) return at(file, lines, name, line);
  return nullptr;
}

std::string function_around(const Lines& lines, int line) {
  const auto indent = [](std::string_view text) { return text.find_first_not_of(" \t"); };
  std::string name;
  bool inner = false;  // of a class or function that was passed
  size_t depth = indent(lines[static_cast<size_t>(line) - 1]);
  for (int at = line - 1; at > 0 && depth != 0; --at) {
    const std::string_view text = lines[static_cast<size_t>(at) - 1];
    const size_t here = indent(text);
    if (here >= depth) continue;  // also of an empty line
    std::string_view words = trimmed(text);
    depth = here;
    if (words.starts_with("async ")) words.remove_prefix(6);
    const bool function = words.starts_with("def ");
    if (!function && !words.starts_with("class ")) continue;
    words.remove_prefix(function ? 4 : 6);
    size_t end = 0;
    while (end < words.size() && word_char(words[end])) ++end;
    if (!function && !inner) return {};  // in the body of a class
    name = std::string(words.substr(0, end)) + (inner ? function ? ".<locals>." : "." : "") + name;
    inner = true;
  }
  return inner ? name : "<module>";
}

}  // namespace devtrace::evidence
