#include "tracker/evidence/source/expression.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <string_view>

#include "common/torch_functions.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kLongestText = 200;  // of a value: longer ones are left out, not cut
constexpr size_t kMostNodes = 5000;
constexpr int kStatements = 257, kExpression = 258;  // Py_file_input, Py_eval_input

// Properties of a tensor that lie where the tensor lies.
constexpr std::string_view kSameDevice[] = {"T", "mT", "H", "mH", "data", "real", "imag"};

bool leaves(std::string_view method) {
  return method.starts_with("is_") || torch_functions::function_named(method).is(torch_functions::kLeaves);
}

// Python's own functions whose result is no tensor, whatever they are given.
constexpr std::string_view kNoTensor[] = {"float", "int", "bool", "complex", "len", "range", "str", "isinstance"};

// Python's parser warns of these, and a warning is the user's code to handle.
bool has_escapes(const std::string& text) {
  for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 1))
    if (at + 1 < text.size() && text[at + 1] != '\n') return true;
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

std::string on_one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c));
    if (!space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

// A text and its syntax tree. Nodes are borrowed from their parents, which live as long as the tree.
class Tree {
 public:
  Tree(const Api& api, const std::string& text, int mode) : api_(api), lines_(split_lines(text)) {
    root_ = parse(text, mode);
  }

  PyObject* root() const { return root_.get(); }

  std::string kind(PyObject* node) const { return python::type_name(api_, python::type_of(api_, node).get()); }

  // Empty for None, which stands for a part that is not there.
  Ref part(PyObject* node, const char* name) const {
    Ref part = python::attribute(api_, node, name);
    return part && kind(part.get()) != "NoneType" ? std::move(part) : Ref();
  }
  std::vector<Ref> parts(PyObject* node, const char* name) const {
    std::vector<Ref> found;
    const Ref list = python::attribute(api_, node, name);
    if (!list || python::shape_of(api_, list.get()) != python::Shape::list) return found;
    for (ssize_t i = 0, n = api_.PyList_Size(list.get()); i < n; ++i)
      found.push_back(Ref::borrowed(api_, api_.PyList_GetItem(list.get(), i)));
    return found;
  }
  std::string name(PyObject* node, const char* part) const {
    return python::text(api_, python::attribute(api_, node, part).get());
  }
  long long number(PyObject* node, const char* part) const {
    return python::integer(api_, python::attribute(api_, node, part).get(), -1);
  }

  // All nodes in the order of the text, the node itself first; `visit` says whether to go on into its parts.
  void each(PyObject* node, const std::function<bool(PyObject*)>& visit) {
    if (visited_++ > kMostNodes || !visit(node)) return;
    const Ref fields = python::attribute(api_, python::type_of(api_, node).get(), "_fields");
    for (ssize_t i = 0, n = fields ? api_.PyTuple_Size(fields.get()) : 0; i < n; ++i) {
      const std::string field = python::text(api_, api_.PyTuple_GetItem(fields.get(), i));
      const Ref part = python::attribute(api_, node, field.c_str());
      if (!part) continue;
      if (python::shape_of(api_, part.get()) == python::Shape::list) {
        for (const Ref& element : parts(node, field.c_str()))
          if (is_node(element.get())) each(element.get(), visit);
      } else if (is_node(part.get())) {
        each(part.get(), visit);
      }
    }
  }

  std::string text(PyObject* node) const {
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

 private:
  bool is_node(PyObject* object) const {
    return static_cast<bool>(python::attribute(api_, python::type_of(api_, object).get(), "_fields"));
  }

  // Not by the built-in compile(), which the program may have put something else in place of.
  Ref parse(const std::string& text, int mode) const {
    constexpr int kTextIsUtf8 = 0x100, kOnlyTree = 0x400, kNoCodingComment = 0x800;
    constexpr int kNewestSyntax = 100;  // minor versions of Python 3 up to it
    python::PyCompilerFlags flags{kTextIsUtf8 | kOnlyTree | kNoCodingComment, kNewestSyntax};
    if (text.empty() || has_escapes(text)) return {};
    return Ref(api_, api_.Py_CompileStringExFlags(text.c_str(), "<devtrace>", mode, &flags, -1));
  }

  const Api& api_;
  std::vector<std::string> lines_;
  Ref root_;
  size_t visited_ = 0;
};

class Reader {
 public:
  Reader(const Api& api, Tree& tree) : api_(api), tree_(tree) {}

  // Nothing for what is no operation, or none that a tensor could refuse.
  std::optional<Operation> operation(PyObject* node) {
    const std::string kind = tree_.kind(node);
    Operation out;
    if (kind == "BinOp") {
      give(out, node, {"left", "right"});
    } else if (kind == "AugAssign") {
      give(out, node, {"target", "value"});
    } else if (kind == "UnaryOp") {
      give(out, node, {"operand"});
    } else if (kind == "Attribute") {
      give(out, node, {"value"});
    } else if (kind == "Subscript") {
      give(out, node, {"value", "slice"});
    } else if (kind == "Compare") {
      const std::vector<Ref> others = tree_.parts(node, "comparators");
      if (others.size() != 1) return std::nullopt;  // a < b < c: which of the two?
      give(out, node, {"left"});
      add(out, others[0].get(), {1});
    } else if (kind == "Call") {
      call(out, node);
    } else {
      return std::nullopt;
    }
    return out;
  }

  // `x[i] = y` and `x.data = y`.
  Operation store(PyObject* target, PyObject* value) {
    Operation out = operation(target).value_or(Operation{});
    add(out, value, {tree_.kind(target) == "Subscript" ? 2 : 1});
    return out;
  }

  // What a call is given as the device of its result, also as an entry of `**self.factory_kwargs`.
  std::optional<Path> device(PyObject* call) {
    std::optional<Path> unpacked;
    for (const Ref& keyword : tree_.parts(call, "keywords")) {
      const Ref value = tree_.part(keyword.get(), "value");
      if (tree_.name(keyword.get(), "arg") == "device") return path(value.get());
      if (!unpacked && !tree_.part(keyword.get(), "arg")) unpacked = path(value.get());
    }
    if (unpacked) {
      unpacked->steps.push_back({Step::key, "device", 0});
      return unpacked;
    }
    const Ref callee = tree_.part(call, "func");
    if (!callee || tree_.kind(callee.get()) != "Attribute") return std::nullopt;
    const std::string name = tree_.name(callee.get(), "attr");
    const std::vector<Ref> given = tree_.parts(call, "args");
    return (name == "to" || name == "cuda") && !given.empty() ? path(given[0].get()) : std::nullopt;
  }

  std::optional<Path> path(PyObject* node) {
    const std::string kind = node ? tree_.kind(node) : "";
    if (kind == "Name") return Path{tree_.name(node, "id"), {}};
    if (kind == "NamedExpr") return path(tree_.part(node, "target").get());
    if (kind != "Attribute" && kind != "Subscript") return std::nullopt;
    std::optional<Path> whole = path(tree_.part(node, "value").get());
    if (!whole) return std::nullopt;
    if (kind == "Attribute") {
      whole->steps.push_back({Step::attribute, tree_.name(node, "attr"), 0});
      return whole;
    }
    const std::optional<Step> step = subscript(tree_.part(node, "slice").get());
    if (!step) return std::nullopt;
    whole->steps.push_back(*step);
    return whole;
  }

 private:
  void give(Operation& out, PyObject* node, std::initializer_list<const char*> parts) {
    int number = 0;
    for (const char* name : parts) {
      if (const Ref part = tree_.part(node, name)) add(out, part.get(), {number});
      ++number;
    }
  }

  void call(Operation& out, PyObject* node) {
    if (const Ref callee = tree_.part(node, "func")) {
      const std::string kind = tree_.kind(callee.get());
      const Ref receiver = kind == "Attribute" ? tree_.part(callee.get(), "value") : Ref();
      if (receiver) add(out, receiver.get(), {Value::kReceiver});
      if (kind == "Name" || receiver)
        out.callee = value(callee.get());
      else
        out.hidden = true;  // what an expression gave to be called may carry tensors
    }
    const std::vector<Ref> arguments = tree_.parts(node, "args"), keywords = tree_.parts(node, "keywords");
    int number = add_each(out, arguments, Place{});
    for (const Ref& keyword : keywords) {
      const Ref value = tree_.part(keyword.get(), "value");
      const std::string name = tree_.name(keyword.get(), "arg");
      if (name.empty()) number = kNowhere;  // **value: any number of them
      const size_t before = out.given.size();
      if (value) add(out, value.get(), number == kNowhere ? Place{} : Place{number++});
      for (size_t i = before; i < out.given.size(); ++i) out.given[i].keyword = name;
    }
  }

  using Place = std::vector<int>;
  static constexpr int kNowhere = -1;

  // Values that follow each other from `outer` on; kNowhere, or the number of the next one. Behind a starred one nobody
  // knows which they are.
  int add_each(Operation& out, const std::vector<Ref>& nodes, const std::optional<Place>& outer) {
    int number = outer ? 0 : kNowhere;
    for (const Ref& node : nodes) {
      if (tree_.kind(node.get()) == "Starred") number = kNowhere;
      Place place;
      if (number != kNowhere) {
        place = *outer;
        place.push_back(number++);
      }
      add(out, node.get(), place);
    }
    return number;
  }

  // `place`: empty where it is not known.
  void add(Operation& out, PyObject* node, const Place& place) {
    const std::string kind = tree_.kind(node);
    const auto within = [&] { return place.empty() ? std::optional<Place>() : place; };
    if (kind == "Tuple" || kind == "List") {
      add_each(out, tree_.parts(node, "elts"), within());
    } else if (kind == "Set" || kind == "Dict") {
      add_each(out, tree_.parts(node, kind == "Set" ? "elts" : "values"), std::nullopt);
    } else if (kind == "Slice") {
      for (const char* name : {"lower", "upper", "step"})
        if (const Ref part = tree_.part(node, name)) add(out, part.get(), {});
    } else if (kind == "Starred") {
      const Ref inner = tree_.part(node, "value");
      const std::string inner_kind = tree_.kind(inner.get());
      const bool display = inner_kind == "Tuple" || inner_kind == "List";
      if (!display && !path(inner.get())) out.hidden = true;  // any number of values
      add(out, inner.get(), {});
    } else if (kind == "ListComp" || kind == "GeneratorExp" || kind == "SetComp" || kind == "DictComp") {
      out.hidden = true;
    } else if (kind != "Lambda" && kind != "JoinedStr" && !(kind == "Constant" && !is_number(node))) {
      out.given.push_back(value(node));
      out.given.back().place = place;
    }
  }

  bool is_number(PyObject* constant) const {
    const Ref value = tree_.part(constant, "value");
    const std::string kind = value ? tree_.kind(value.get()) : "";
    return kind == "int" || kind == "float" || kind == "complex" || kind == "bool";
  }

  Value value(PyObject* node) {
    Value out{tree_.text(node), path(node), {}, false};
    const std::string kind = tree_.kind(node);
    const auto like = [&](PyObject* part) {
      if (part) out.like.push_back(value(part));
    };
    if (kind == "Constant") {
      out.number = is_number(node);
    } else if (kind == "BinOp") {
      like(tree_.part(node, "left").get());
      like(tree_.part(node, "right").get());
    } else if (kind == "Compare" && tree_.parts(node, "comparators").size() == 1) {
      like(tree_.part(node, "left").get());
      like(tree_.parts(node, "comparators")[0].get());
    } else if (kind == "UnaryOp" && tree_.kind(tree_.part(node, "op").get()) != "Not") {
      like(tree_.part(node, "operand").get());
    } else if (kind == "Subscript") {
      like(tree_.part(node, "value").get());
    } else if (kind == "Attribute") {
      const std::string name = tree_.name(node, "attr");
      if (std::find(std::begin(kSameDevice), std::end(kSameDevice), name) != std::end(kSameDevice))
        like(tree_.part(node, "value").get());
    } else if (kind == "Call") {
      const Ref callee = tree_.part(node, "func");
      if (callee) out.callee = path(callee.get());
      if (out.callee && out.callee->steps.empty())
        out.number = std::find(std::begin(kNoTensor), std::end(kNoTensor), out.callee->variable) != std::end(kNoTensor);
      if (callee && tree_.kind(callee.get()) == "Attribute") {
        const std::string name = tree_.name(callee.get(), "attr");
        const Ref receiver = tree_.part(callee.get(), "value");
        const std::vector<Ref> given = tree_.parts(node, "args");
        const bool torch =
            receiver && tree_.kind(receiver.get()) == "Name" && tree_.name(receiver.get(), "id") == "torch";
        const torch_functions::Function function = torch_functions::function_named(name);
        const size_t following = function.is(torch_functions::kJoins) ? given.size() : function.follows_operands();
        if (!torch && !leaves(name) && !says_device(node)) like(receiver.get());
        if (torch && !says_device(node))
          for (size_t i = 0; i < std::min(following, given.size()); ++i) like(given[i].get());
      }
    }
    // A number with a sign, or arithmetic of numbers, is one.
    out.number = out.number || (!out.like.empty() && std::all_of(out.like.begin(), out.like.end(),
                                                                 [](const Value& part) { return part.number; }));
    return out;
  }

  bool says_device(PyObject* call) {
    for (const Ref& keyword : tree_.parts(call, "keywords"))
      if (tree_.name(keyword.get(), "arg") == "device") return true;
    return false;
  }

  std::optional<Step> subscript(PyObject* node) {
    if (!node) return std::nullopt;
    const std::string kind = tree_.kind(node);
    if (kind == "Name") return Step{Step::variable, tree_.name(node, "id"), 0};
    if (kind == "UnaryOp" && tree_.kind(tree_.part(node, "op").get()) == "USub") {
      std::optional<Step> step = subscript(tree_.part(node, "operand").get());
      if (!step || step->kind != Step::index) return std::nullopt;
      step->position = -step->position;
      return step;
    }
    if (kind != "Constant") return std::nullopt;
    const Ref value = tree_.part(node, "value");
    if (!value) return std::nullopt;
    if (tree_.kind(value.get()) == "str") return Step{Step::key, python::text(api_, value.get()), 0};
    constexpr long long kNone = -2;  // a literal has no sign
    const long long position = tree_.kind(value.get()) == "int" ? python::integer(api_, value.get(), kNone) : kNone;
    if (position == kNone) return std::nullopt;
    return Step{Step::index, {}, static_cast<long>(position)};
  }

  const Api& api_;
  Tree& tree_;
};

void add_once(Path path, std::vector<Path>& paths) {
  const std::string written = to_string(path);
  const auto same = [&](const Path& other) { return to_string(other) == written; };
  if (std::none_of(paths.begin(), paths.end(), same)) paths.push_back(std::move(path));
}

void add_mentioned(Tree& tree, Reader& reader, Expression& out) {
  tree.each(tree.root(), [&](PyObject* node) {
    if (tree.kind(node) == "Call")
      if (std::optional<Path> device = reader.device(node)) add_once(std::move(*device), out.devices);
    const Ref context = tree.kind(node) == "Name" ? tree.part(node, "ctx") : Ref();
    if (context && tree.kind(context.get()) == "Store") return false;  // it gets its value only now
    std::optional<Path> path = reader.path(node);
    if (!path) return true;
    add_once(std::move(*path), out.mentioned);
    return tree.kind(node) == "Subscript";  // what is between the brackets is mentioned as well
  });
}

// The assignment whose target reads as `target`.
void read_store(const Api& api, const std::string& statement, const std::string& target, Expression& out) {
  Tree tree(api, statement, kStatements);
  if (!tree.root()) return;
  Reader reader(api, tree);
  tree.each(tree.root(), [&](PyObject* node) {
    if (tree.kind(node) != "Assign") return true;
    const Ref value = tree.part(node, "value");
    for (const Ref& each : tree.parts(node, "targets"))
      if (value && tree.text(each.get()) == target && out.operations.empty())
        out.operations.push_back(reader.store(each.get(), value.get()));
    return false;
  });
  if (!out.operations.empty()) add_mentioned(tree, reader, out);
}

void read_exact(const Api& api, const std::string& text, Expression& out) {
  // In brackets, an expression may go over several lines.
  Tree tree(api, "(" + text + "\n)", kExpression);
  const Ref body = tree.root() ? tree.part(tree.root(), "body") : Ref();
  if (body) {
    Reader reader(api, tree);
    if (std::optional<Operation> only = reader.operation(body.get())) out.operations.push_back(std::move(*only));
    add_mentioned(tree, reader, out);
    return;
  }
  Tree statement(api, text, kStatements);  // a += b
  if (!statement.root()) return;
  Reader reader(api, statement);
  const std::vector<Ref> statements = statement.parts(statement.root(), "body");
  if (statements.size() != 1) return;
  if (std::optional<Operation> only = reader.operation(statements[0].get())) out.operations.push_back(std::move(*only));
  add_mentioned(statement, reader, out);
}

void read_lines(const Api& api, std::string text, Expression& out) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (text.ends_with(':')) text += " pass";
  Tree tree(api, text + "\n", kStatements);
  if (!tree.root()) return;
  Reader reader(api, tree);
  tree.each(tree.root(), [&](PyObject* node) {
    const std::string kind = tree.kind(node);
    if (kind == "Lambda" || kind.ends_with("FunctionDef") || kind == "ClassDef") return false;  // runs elsewhere
    if (kind == "Attribute") return true;                                                       // rarely an operation
    if (std::optional<Operation> one = reader.operation(node)) out.operations.push_back(std::move(*one));
    if (kind == "Assign")
      for (const Ref& target : tree.parts(node, "targets"))
        if (tree.kind(target.get()) == "Subscript")
          out.operations.push_back(reader.store(target.get(), tree.part(node, "value").get()));
    return true;
  });
  add_mentioned(tree, reader, out);
}

}  // namespace

std::string to_string(const Path& path) {
  std::string text = path.variable;
  for (const Step& step : path.steps) {
    if (step.kind == Step::attribute)
      text += "." + step.name;
    else if (step.kind == Step::key)
      text += "[\"" + step.name + "\"]";
    else if (step.kind == Step::variable)
      text += "[" + step.name + "]";
    else
      text += "[" + std::to_string(step.position) + "]";
  }
  return text;
}

Expression read_expression(const Api& api, const std::string& text, bool exact, const std::string& statement) {
  Expression out;
  std::string own = text;
  while (!own.empty() && std::isspace(static_cast<unsigned char>(own.back()))) own.pop_back();
  if (!statement.empty()) {
    read_store(api, statement, on_one_line(own), out);
    return out;
  }
  if (exact)
    read_exact(api, own, out);
  else
    read_lines(api, own, out);
  return out;
}

}  // namespace devtrace::evidence
