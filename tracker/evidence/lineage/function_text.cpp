#include "tracker/evidence/lineage/function_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tracker/evidence/source/syntax_tree.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr int kLongestHead = 60;        // lines of a function's parameters
constexpr int kLongestFunction = 3000;  // lines

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80);
}

size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

bool blank(std::string_view line) {
  const size_t at = indentation(line);
  return at == line.size() || line[at] == '#';
}

// `def name(` or `async def name(`, from where the line begins.
bool defines(std::string_view line, std::string_view name) {
  line.remove_prefix(indentation(line));
  if (line.starts_with("async ")) line.remove_prefix(6);
  if (!line.starts_with("def ")) return false;
  line.remove_prefix(4);
  line.remove_prefix(indentation(line));
  return line.starts_with(name) && (line.size() == name.size() || !word_char(line[name.size()]));
}

// From `def` to its colon, with a body that says nothing.
std::string head_of(const Lines& lines, int first, int& end) {
  std::string head;
  int depth = 0;
  for (int line = first; line <= static_cast<int>(lines.size()) && line < first + kLongestHead; ++line) {
    std::string_view text = lines[line - 1];
    if (line == first) text.remove_prefix(indentation(text));
    char quote = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (quote) {
        if (c == quote) quote = 0;
        continue;
      }
      if (c == '"' || c == '\'') quote = c;
      if (c == '#') {
        text = text.substr(0, at);
        break;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (c == ':' && depth == 0) {
        end = line;
        return head.append(text.substr(0, at + 1)) + " pass\n";
      }
    }
    head.append(text) += '\n';
  }
  return {};
}

void read_parameters(const Api& api, const std::string& head, FunctionText& function) {
  const SyntaxTree tree(api, head, SyntaxTree::kStatements);
  if (!tree.root()) return;
  const std::vector<Ref> body = tree.parts(tree.root(), "body");
  const Ref arguments = body.size() == 1 ? tree.part(body[0].get(), "args") : Ref();
  if (!arguments) return;
  for (const char* kind : {"posonlyargs", "args", "kwonlyargs"})
    for (const Ref& each : tree.parts(arguments.get(), kind))
      function.parameters.push_back(tree.name(each.get(), "arg"));
  function.method =
      !function.parameters.empty() && (function.parameters[0] == "self" || function.parameters[0] == "cls");
}

// Does the text, which assigns, have the name by itself: neither an attribute nor something that is indexed?
bool names(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !(word_char(text[at - 1]) || text[at - 1] == '.');
    const bool ends = end == text.size() ||
                      !(word_char(text[end]) || std::string_view(".[(").find(text[end]) != std::string_view::npos);
    if (begins && ends) return true;
  }
  return false;
}

// What stands before the line's first `=` outside of brackets; empty where it assigns nothing. An operation in place
// (`x += 1`) gives a tensor no other device.
std::string_view targets(std::string_view line) {
  int depth = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '#' || c == '"' || c == '\'') return {};
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != '=' || depth != 0) continue;
    const bool compares = at + 1 < line.size() && line[at + 1] == '=';
    const bool other = at > 0 && std::string_view("=!<>+-*/%&|^@").find(line[at - 1]) != std::string_view::npos;
    return compares || other ? std::string_view() : line.substr(0, at);
  }
  return {};
}

bool binds(std::string_view line, std::string_view variable) {
  const std::string_view text = line.substr(indentation(line));
  if (text.starts_with("for ") || text.starts_with("async for "))
    return names(text.substr(0, std::min(text.find(" in "), text.size())), variable);
  if (text.starts_with("import ") || text.starts_with("from ")) return names(text, variable);
  const std::string as = std::string(" as ").append(variable), walrus = std::string(variable) + " := ";
  const size_t after = text.find(as);
  if (after != text.npos && (after + as.size() == text.size() || !word_char(text[after + as.size()]))) return true;
  if (text.find(walrus) != text.npos) return true;
  std::string_view left = targets(text);
  if (const size_t annotation = left.find(':'); annotation != left.npos) left = left.substr(0, annotation);
  return names(left, variable);
}

}  // namespace

std::optional<FunctionText> function_at(const Api& api, const Lines& lines, const std::string& name, int line) {
  FunctionText function;
  const int count = static_cast<int>(lines.size());
  if (line < 1 || line > count) return std::nullopt;
  function.last = count;
  function.module = name == "<module>";
  if (function.module) return function;
  const std::string own = name.substr(name.rfind('.') + 1);
  if (own.starts_with('<')) return std::nullopt;
  const size_t inside = indentation(lines[line - 1]);
  int first = line;
  while (first > 0 && !(defines(lines[first - 1], own) && (first == line || indentation(lines[first - 1]) < inside)))
    if (--first < line - kLongestFunction) return std::nullopt;
  if (first == 0) return std::nullopt;
  int end = 0;
  const std::string head = head_of(lines, first, end);
  if (head.empty()) return std::nullopt;
  read_parameters(api, head, function);
  function.first = first;
  function.last = end;
  while (function.last < count &&
         (blank(lines[function.last]) || indentation(lines[function.last]) > indentation(lines[first - 1])))
    ++function.last;
  return function;
}

std::vector<int> bindings(const Lines& lines, const FunctionText& function, const std::string& variable) {
  std::vector<int> found;
  for (int line = function.first; line <= std::min(function.last, static_cast<int>(lines.size())); ++line)
    if (binds(lines[line - 1], variable)) found.push_back(line);
  return found;
}

}  // namespace devtrace::evidence
