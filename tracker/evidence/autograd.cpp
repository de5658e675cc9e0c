#include "tracker/evidence/autograd.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::element;
using python::Ref;

constexpr size_t kMostNodes = 50000;  // a finding must stay milliseconds

// PyTorch's functions that call the engine, each in its file.
bool calls_engine(std::string_view file, std::string_view function) {
  if (file.ends_with("/torch/autograd/graph.py")) return function == "_engine_run_backward";
  return file.ends_with("/torch/autograd/__init__.py") && (function == "backward" || function == "grad");
}

Ref variable(const Api& api, const Ref& locals, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (Ref value = python::entry(api, locals.get(), name)) return value;
  return {};
}

// What the engine was called for, and the gradients it was given for that.
struct Roots {
  Ref tensors;
  Ref gradients;
};

Roots roots_of(const Api& api, const Ref& locals) {
  Roots roots;
  roots.tensors = variable(api, locals, {"t_outputs", "tensors"});
  roots.gradients = variable(api, locals, {"grad_tensors_", "grad_outputs_"});
  if (!roots.gradients) roots.gradients = element(api, variable(api, locals, {"args"}).get(), 0);
  return roots;
}

// The node that an edge leads to; empty: to none.
Ref node_of(const Api& api, const Ref& edge) {
  Ref node = element(api, edge.get(), 0);
  return node.get() != api._Py_NoneStruct ? std::move(node) : Ref();
}

// … that one of a node's gradients goes to.
Ref next_node(const Api& api, PyObject* edges, size_t index) {
  return node_of(api, element(api, edges, index));
}

// All nodes of a name that can be reached, each once. Python's objects for nodes live as long as `seen` holds them.
std::vector<PyObject*> nodes_named(const Api& api, const Torch& torch, PyObject* tensors, std::string_view name,
                                   std::vector<Ref>& seen) {
  std::vector<PyObject*> found;
  std::unordered_set<PyObject*> known;
  const auto reach = [&](Ref node) {
    if (!node || node.get() == api._Py_NoneStruct || seen.size() >= kMostNodes) return;
    if (!known.insert(node.get()).second) return;
    if (class_of(api, node.get()) == name) found.push_back(node.get());
    seen.push_back(std::move(node));
  };
  for (size_t i = 0; const Ref root = element(api, tensors, i); ++i)
    if (torch.is_tensor(root.get()) && !torch.is_opaque(root.get())) reach(torch.grad_fn(root.get()));
  for (size_t at = 0; at < seen.size(); ++at) {
    const Ref edges = python::attribute(api, seen[at].get(), "next_functions");
    for (size_t i = 0; edges && element(api, edges.get(), i); ++i) reach(next_node(api, edges.get(), i));
  }
  return found;
}

// The code of a function as a class has it: static, and wrapped as decorators of PyTorch's do.
Ref code_of(const Api& api, PyObject* function) {
  Ref inner = Ref::borrowed(api, function);
  for (const char* wrapped : {"__func__", "__wrapped__"}) {
    const Ref dict = inner ? python::instance_dict(api, inner.get()) : Ref();
    Ref next = python::entry(api, dict.get(), wrapped);
    if (!next && inner) next = python::attribute(api, inner.get(), wrapped);
    if (next) inner = std::move(next);
  }
  return inner ? python::attribute(api, inner.get(), "__code__") : Ref();
}

finding::Frame beginning_of(const Api& api, const SourceText& source, PyObject* code) {
  finding::Frame place;
  place.file = python::text(api, python::attribute(api, code, "co_filename").get());
  place.function = python::text(api, python::attribute(api, code, "co_qualname").get());
  if (place.function.empty()) place.function = python::text(api, python::attribute(api, code, "co_name").get());
  place.line = static_cast<int>(python::integer(api, python::attribute(api, code, "co_firstlineno").get(), 0));
  // Decorators stand in front of it.
  constexpr int kMostDecorators = 8;
  const int first = static_cast<int>(place.line);
  for (int line = first; line < first + kMostDecorators; ++line) {
    const std::string text = source.lines(place.file, line);
    if (!text.starts_with("@")) {
      if (text.starts_with("def ")) place.line = line;
      tell_source(place, source);
      break;
    }
  }
  place.project = is_project_file(place.file, source.standard_library);
  return place;
}

// The lines of a function's own that begin with `return`; those of functions inside it are others'.
std::vector<int> returning_lines(const Api& api, const SourceText& source, PyObject* code, const std::string& file) {
  std::vector<int> found;
  const Ref lines = python::call_method(api, code, "co_lines");
  while (lines) {
    const Ref entry(api, api.PyIter_Next(lines.get()));
    if (!entry) break;
    const int line = static_cast<int>(python::integer(api, element(api, entry.get(), 2).get(), 0));
    if (line > 0 && source.lines(file, line).starts_with("return ") &&
        std::find(found.begin(), found.end(), line) == found.end())
      found.push_back(line);
  }
  return found;
}

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\\"), end = text.find_last_not_of(" \t\n\\");
  return begin == text.npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

std::string without_comments(std::string_view text) {
  std::string out;
  char quote = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (!quote && c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
      continue;
    }
    out += c;
    if (quote && c == '\\' && at + 1 < text.size())
      out += text[++at];
    else if (quote ? c == quote : c == '"' || c == '\'')
      quote = quote ? 0 : c;
  }
  return out;
}

// What a line returns, by the commas outside of brackets and literals. Nothing where that cannot be told.
std::vector<std::string> returned(std::string_view statement) {
  std::string_view text = without_blanks(statement.substr(std::string_view("return").size()));
  std::vector<std::string> values;
  for (int round = 0; round < 2; ++round) {
    values.clear();
    int depth = 0;
    char quote = 0;
    size_t begin = 0, first_close = text.npos;
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (quote) {
        if (c == '\\') ++at;
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ')' || c == ']' || c == '}') {
        if (--depth == 0 && first_close == text.npos) first_close = at;
      } else if (c == ',' && depth == 0) {
        values.emplace_back(without_blanks(text.substr(begin, at - begin)));
        begin = at + 1;
      }
    }
    if (depth != 0 || quote) return {};
    if (const auto last = without_blanks(text.substr(begin)); !last.empty()) values.emplace_back(last);
    const bool bracketed = values.size() == 1 && text.starts_with('(') && first_close == text.size() - 1;
    if (!bracketed) break;
    text = without_blanks(text.substr(1, text.size() - 2));  // `return (a, b)`
  }
  const auto unclear = [](const std::string& each) { return each.empty() || each.starts_with('*'); };
  return std::any_of(values.begin(), values.end(), unclear) ? std::vector<std::string>() : values;
}

// Which of forward's arguments a gradient is for: gradients are counted by tensors, and only those that need one have a
// node to go to.
std::optional<size_t> position_of(const Api& api, PyObject* node, PyObject* edges, size_t index, size_t& arguments) {
  const Ref needed = python::attribute(api, node, "needs_input_grad");
  if (!needed || python::shape_of(api, needed.get()) != python::Shape::tuple || !next_node(api, edges, index))
    return std::nullopt;
  size_t rank = 0;
  for (size_t i = 0; i <= index; ++i) rank += static_cast<bool>(next_node(api, edges, i));
  std::optional<size_t> found;
  for (arguments = 0; const Ref need = element(api, needed.get(), arguments); ++arguments)
    if (python::is_true(api, need.get()) && --rank == 0) found = arguments;
  return found;
}

// Forward has the context in front, unless the class sets it up in a function of its own.
std::string parameter(const Api& api, PyObject* type, PyObject* code, size_t position) {
  const Ref module = python::imported_module(api, "torch.autograd.function");
  const Ref base = module ? python::attribute(api, module.get(), "Function") : Ref();
  const Ref own = python::attribute(api, type, "setup_context");
  const Ref inherited = base ? python::attribute(api, base.get(), "setup_context") : Ref();
  if (own.get() == inherited.get()) ++position;
  const Ref names = python::attribute(api, code, "co_varnames");
  const auto count = static_cast<size_t>(python::integer(api, python::attribute(api, code, "co_argcount").get(), 0));
  return names && position < count ? python::text(api, element(api, names.get(), position).get()) : std::string();
}

// What the program wrote of a node: its torch.autograd.Function.
void describe_function(const Api& api, const SourceText& source, PyObject* node, PyObject* edges,
                       RefusedGradient& out) {
  const Ref type = python::attribute(api, python::type_of(api, node).get(), "_forward_cls");
  if (!type || !python::is_class(api, type.get())) return;
  finding::Gradient& gradient = out.gradient;
  gradient.function = python::type_name(api, type.get());
  if (const size_t inside = gradient.function.rfind("<locals>."); inside != std::string::npos)
    gradient.function.erase(0, inside + std::string_view("<locals>.").size());
  size_t arguments = 0;
  const auto index = static_cast<size_t>(*gradient.index);
  const std::optional<size_t> position = position_of(api, node, edges, index, arguments);
  if (const Ref forward = code_of(api, python::attribute(api, type.get(), "forward").get())) {
    gradient.forward = beginning_of(api, source, forward.get());
    if (position) gradient.argument = parameter(api, type.get(), forward.get(), *position);
  }
  const Ref backward = code_of(api, python::attribute(api, type.get(), "backward").get());
  if (!backward) return;
  finding::Frame& place = gradient.backward;
  place = beginning_of(api, source, backward.get());
  const std::vector<int> lines = returning_lines(api, source, backward.get(), place.file);
  if (lines.size() != 1) return;
  const std::string text = source.lines(place.file, lines[0]);
  place.line = lines[0];
  tell_source(place, source);
  place.around = source.around(place.file, lines[0]);
  const std::vector<std::string> values = returned(without_comments(text));
  if (position && values.size() == arguments) out.expression = values[*position];
}

// Hooks of the tensors that a node made: its gradient is what they returned.
void find_hooks(const Api& api, const Torch& torch, const std::vector<Frame>& frames, const SourceText& source,
                PyObject* node, finding::Gradient& out) {
  ObjectWalk walk{api, torch};
  const Scope scope(api, frames, walk);
  std::unordered_set<PyObject*> seen;
  const auto look = [&](const ReachedObject& reached) {
    if (!torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
    if (!seen.insert(reached.object).second) return;
    const Ref hooks = torch.gradient_hooks(reached.object);
    if (!hooks || python::shape_of(api, hooks.get()) != python::Shape::dict) return;
    if (torch.grad_fn(reached.object).get() != node) return;
    for (python::DictEntries each(api, hooks.get()); each.next();)
      if (const Ref code = code_of(api, each.value()))
        out.hooks.push_back({beginning_of(api, source, code.get()), reached.name});
  };
  for (size_t frame = 0; frame < frames.size(); ++frame)
    if (frames[frame].project)
      scope.for_each_local(
          frame, [&](const std::string& name, PyObject* value) { walk.walk(value, name, 2, name == "self", look); });
}

}  // namespace

std::optional<python::FrameSource> waiting_for_autograd(const Api& api) {
  std::optional<python::FrameSource> found;
  for (const python::FrameSource& thread : python::other_threads(api)) {
    const std::vector<python::RawFrame> innermost = python::live_frames(thread, 1);
    if (innermost.empty()) continue;
    PyObject* const code = python::code_of(innermost[0]);
    if (!calls_engine(python::text(api, python::attribute(api, code, "co_filename").get()),
                      python::text(api, python::attribute(api, code, "co_name").get())))
      continue;
    if (found) return std::nullopt;
    found = thread;
  }
  return found;
}

std::optional<RefusedGradient> refused_gradient(const Api& api, const Torch& torch, const std::vector<Frame>& frames,
                                                const SourceText& source, std::string_view node, size_t index) {
  if (frames.empty() || !calls_engine(frames[0].file, frames[0].function)) return std::nullopt;
  RefusedGradient out;
  out.gradient.index = static_cast<int64_t>(index);
  const Ref locals = frames[0].locals(api);
  const Roots roots = roots_of(api, locals);
  const auto at_index = [&](const Ref& list) { return element(api, list.get(), index); };
  const auto meet = [&](Ref tensor) {
    if (!tensor || !torch.is_tensor(tensor.get())) return;
    out.met.push_back(tensor.get());
    out.kept.push_back(std::move(tensor));
  };
  if (!node.empty()) {
    const std::vector<PyObject*> nodes = nodes_named(api, torch, roots.tensors.get(), node, out.kept);
    if (nodes.size() != 1) return std::nullopt;
    const Ref edges = python::attribute(api, nodes[0], "next_functions");
    describe_function(api, source, nodes[0], edges.get(), out);
    find_hooks(api, torch, frames, source, nodes[0], out.gradient);
    // A leaf's gradient is collected by a node that has the leaf.
    const Ref next = node_of(api, at_index(edges));
    meet(python::attribute(api, next.get(), "variable"));
    return out;
  }
  for (const Ref* given : {&roots.gradients, &roots.tensors}) meet(at_index(*given));
  return out;
}

}  // namespace devtrace::evidence
