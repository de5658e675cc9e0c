#include "tracker/evidence/source/expression.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "common/torch_functions.h"
#include "tracker/evidence/source/syntax_tree.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;
using Tree = SyntaxTree;

// Properties of a tensor that lie where the tensor lies.
constexpr std::string_view kSameDevice[] = {"T", "mT", "H", "mH", "data", "real", "imag"};

bool leaves(std::string_view method) {
  return method.starts_with("is_") || torch_functions::function_named(method).is(torch_functions::kLeaves);
}

// Python's own functions whose result is no tensor, whatever they are given.
constexpr std::string_view kNoTensor[] = {"float", "int", "bool", "complex", "len", "range", "str", "isinstance"};

class ExpressionReader {
 public:
  ExpressionReader(const Api& api, Tree& tree) : api_(api), tree_(tree) {}

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
        const bool torch = receiver && tree_.kind(receiver.get()) == "Name" &&
                           torch_functions::is_torch(tree_.name(receiver.get(), "id"));
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

// What a call brings to another device, where it is such a call: `x` of `x.cuda()`. A type is no device.
Ref moved_by(Tree& tree, ExpressionReader& reader, PyObject* call) {
  const Ref callee = tree.kind(call) == "Call" ? tree.part(call, "func") : Ref();
  if (!callee || tree.kind(callee.get()) != "Attribute") return {};
  const std::string method = tree.name(callee.get(), "attr");
  if (method == "to") {
    const std::vector<Ref> given = tree.parts(call, "args");
    const std::optional<Path> device = reader.device(call);
    const std::string last = !device ? "" : device->steps.empty() ? device->variable : device->steps.back().name;
    const bool text = !given.empty() && tree.kind(given[0].get()) == "Constant";
    if (!text && last.find("device") == last.npos) return {};
  } else if (method != "cuda" && method != "cpu") {
    return {};
  }
  return tree.part(callee.get(), "value");
}

// Does the comprehension bring each element that it goes through to another device?
bool moves_its_elements(Tree& tree, ExpressionReader& reader, PyObject* node, PyObject* target) {
  bool moves = false;
  for (const char* part : {"elt", "value"}) {
    const Ref element = tree.part(node, part);
    if (!element) continue;
    tree.each(element.get(), [&](PyObject* inner) {
      const Ref moved = moved_by(tree, reader, inner);
      const std::optional<Path> path = moved ? reader.path(moved.get()) : std::nullopt;
      if (path)
        tree.each(target, [&](PyObject* name) {
          moves = moves || (tree.kind(name) == "Name" && tree.name(name, "id") == path->variable);
          return true;
        });
      return !moves;
    });
  }
  return moves;
}

void add_used(Tree& tree, ExpressionReader& reader, PyObject* from, Expression& out) {
  tree.each(from, [&](PyObject* node) {
    const std::string kind = tree.kind(node);
    if (moved_by(tree, reader, node)) return false;
    const std::vector<Ref> generators =
        kind.ends_with("Comp") || kind == "GeneratorExp" ? tree.parts(node, "generators") : std::vector<Ref>();
    for (const Ref& generator : generators)
      if (moves_its_elements(tree, reader, node, tree.part(generator.get(), "target").get())) return false;
    const Ref context = kind == "Name" ? tree.part(node, "ctx") : Ref();
    if (context && tree.kind(context.get()) == "Store") return false;
    std::optional<Path> path = reader.path(node);
    if (!path) return true;
    add_once(std::move(*path), out.used);
    return kind == "Subscript";
  });
}

void add_mentioned(Tree& tree, ExpressionReader& reader, Expression& out) {
  add_used(tree, reader, tree.root(), out);
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
  Tree tree(api, statement, Tree::kStatements);
  if (!tree.root()) return;
  ExpressionReader reader(api, tree);
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
  Tree tree(api, "(" + text + "\n)", Tree::kExpression);
  const Ref body = tree.root() ? tree.part(tree.root(), "body") : Ref();
  if (body) {
    ExpressionReader reader(api, tree);
    if (std::optional<Operation> only = reader.operation(body.get())) out.operations.push_back(std::move(*only));
    add_mentioned(tree, reader, out);
    return;
  }
  Tree statement(api, text, Tree::kStatements);  // a += b
  if (!statement.root()) return;
  ExpressionReader reader(api, statement);
  const std::vector<Ref> statements = statement.parts(statement.root(), "body");
  if (statements.size() != 1) return;
  if (std::optional<Operation> only = reader.operation(statements[0].get())) out.operations.push_back(std::move(*only));
  add_mentioned(statement, reader, out);
}

void read_lines(const Api& api, std::string text, Expression& out) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (text.ends_with(':')) text += " pass";
  Tree tree(api, text + "\n", Tree::kStatements);
  if (!tree.root()) return;
  ExpressionReader reader(api, tree);
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

bool asks_only(const Step& step) {
  return step.kind == Step::attribute &&
         (step.name == "shape" || step.name == "dtype" || step.name == "device" || step.name == "ndim" ||
          step.name == "size" || step.name == "dim" || step.name == "numel");
}

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
