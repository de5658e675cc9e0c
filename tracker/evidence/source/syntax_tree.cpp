#include "tracker/evidence/source/syntax_tree.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kLongestText = 200;  // of a value: longer ones are left out, not cut
constexpr size_t kMostSyntaxNodes = 5000;

// Python's parser warns of escapes that it does not know, and a warning is the user's code to handle.
bool may_warn(const std::string& text) {
  constexpr std::string_view kKnown = "\n\\'\"abfnrtv0123xNuU";
  for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 2))
    if (at + 1 < text.size() && kKnown.find(text[at + 1]) == kKnown.npos) return true;
  return false;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

}  // namespace

std::string on_one_line(const std::string& text) {
  std::string line;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!std::isspace(static_cast<unsigned char>(text[at]))) {
      line += text[at];
      continue;
    }
    const size_t begin = at;
    while (at + 1 < text.size() && std::isspace(static_cast<unsigned char>(text[at + 1]))) ++at;
    const bool breaks = text.find('\n', begin) <= at;
    const char before = line.empty() ? '\n' : line.back(), after = at + 1 < text.size() ? text[at + 1] : ' ';
    const bool beside = std::string_view("([{").find(before) < 3 || std::string_view(".)]}").find(after) < 4;
    if (before != '\n' && !(breaks && beside)) line += ' ';
  }
  return line;
}

SyntaxTree::SyntaxTree(const Api& api, const std::string& text, int mode)
    : api_(api), lines_(split_lines(text)), root_(parse(text, mode)), fields_(api) {}

std::string SyntaxTree::kind(PyObject* node) const {
  return python::type_name(api_, python::type_of(api_, node).get());
}

Ref SyntaxTree::part(PyObject* node, const char* name) const {
  Ref part = python::attribute(api_, node, name);
  return part && kind(part.get()) != "NoneType" ? std::move(part) : Ref();
}

std::vector<Ref> SyntaxTree::parts(PyObject* node, const char* name) const {
  std::vector<Ref> found;
  const Ref list = python::attribute(api_, node, name);
  if (!list || python::shape_of(api_, list.get()) != python::Shape::list) return found;
  for (ssize_t i = 0, n = api_.PyList_Size(list.get()); i < n; ++i)
    found.push_back(Ref::borrowed(api_, api_.PyList_GetItem(list.get(), i)));
  return found;
}

std::string SyntaxTree::name(PyObject* node, const char* part) const {
  return python::text(api_, python::attribute(api_, node, part).get());
}

long long SyntaxTree::number(PyObject* node, const char* part) const {
  return python::integer(api_, python::attribute(api_, node, part).get(), -1);
}

void SyntaxTree::each(PyObject* node, const std::function<bool(PyObject*)>& visit) {
  if (visited_++ > kMostSyntaxNodes || !visit(node)) return;
  PyObject* const fields = fields_of(node);
  for (ssize_t i = 0, n = fields ? api_.PyTuple_Size(fields) : 0; i < n; ++i) {
    const std::string field = python::text(api_, api_.PyTuple_GetItem(fields, i));
    const Ref part = python::attribute(api_, node, field.c_str());
    if (!part) continue;
    if (python::shape_of(api_, part.get()) == python::Shape::list) {
      for (const Ref& element : parts(node, field.c_str()))
        if (fields_of(element.get())) each(element.get(), visit);
    } else if (fields_of(part.get())) {
      each(part.get(), visit);
    }
  }
}

std::string SyntaxTree::text(PyObject* node) const {
  const long long line = number(node, "lineno"), last = number(node, "end_lineno");
  const long long column = number(node, "col_offset"), end = number(node, "end_col_offset");
  if (line < 1 || last < line || last > static_cast<long long>(lines_.size()) || column < 0 || end < 0) return {};
  std::string text;
  for (long long i = line; i <= last; ++i) {
    const std::string& whole = lines_[i - 1];
    const size_t from = i == line ? std::min<size_t>(column, whole.size()) : 0;
    const size_t to = i == last ? std::min<size_t>(end, whole.size()) : whole.size();
    text += whole.substr(from, to > from ? to - from : 0) + '\n';
  }
  text = on_one_line(text);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.size() <= kLongestText ? text : std::string();
}

PyObject* SyntaxTree::fields_of(PyObject* object) {
  return fields_.of(object, [this](PyObject* type) { return python::attribute(api_, type, "_fields"); }).get();
}

// Not by the built-in compile(), which the program may have put something else in place of.
Ref SyntaxTree::parse(const std::string& text, int mode) const {
  constexpr int kTextIsUtf8 = 0x100, kOnlyTree = 0x400, kNoCodingComment = 0x800;
  constexpr int kNewestSyntax = 100;  // minor versions of Python 3 up to it
  python::PyCompilerFlags flags{kTextIsUtf8 | kOnlyTree | kNoCodingComment, kNewestSyntax};
  if (text.empty() || may_warn(text)) return {};
  return Ref(api_, api_.Py_CompileStringExFlags(text.c_str(), "<devtrace>", mode, &flags, -1));
}

}  // namespace devtrace::evidence
