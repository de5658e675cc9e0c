// A Python text as Python's own parser reads it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tracker/evidence/objects/class_memory.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// White space, line ends among it, as single spaces; none where a line ends or begins with a bracket, or begins with
// a dot.
std::string on_one_line(const std::string& text);

// A text and its syntax tree, as the `ast` module describes it. Nodes are borrowed from their parents, which live as
// long as the tree. Under the GIL.
class SyntaxTree {
 public:
  static constexpr int kStatements = 257, kExpression = 258;  // Py_file_input, Py_eval_input

  // Without a root where Python cannot read the text, or would warn of it.
  SyntaxTree(const python::Api& api, const std::string& text, int mode);

  PyObject* root() const { return root_.get(); }
  std::string kind(PyObject* node) const;
  // Empty for None, which stands for a part that is not there.
  python::Ref part(PyObject* node, const char* name) const;
  std::vector<python::Ref> parts(PyObject* node, const char* name) const;
  std::string name(PyObject* node, const char* part) const;
  long long number(PyObject* node, const char* part) const;
  // All nodes in the order of the text, the node itself first; `visit` says whether to go on into its parts.
  void each(PyObject* node, const std::function<bool(PyObject*)>& visit);
  // On one line; empty where that is long.
  std::string text(PyObject* node) const;

 private:
  // The names of a node's parts, a tuple; null: it is no node.
  PyObject* fields_of(PyObject* object);
  python::Ref parse(const std::string& text, int mode) const;

  const python::Api& api_;
  std::vector<std::string> lines_;
  python::Ref root_;
  ClassMemory<python::Ref> fields_;
  size_t visited_ = 0;
};

}  // namespace devtrace::evidence
