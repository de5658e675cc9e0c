#include "tracker/evidence/lineage/holder_kinds.h"

#include <algorithm>
#include <sstream>

#include "common/name_steps.h"
#include "common/text.h"
#include "tracker/evidence/source/expression.h"

namespace devtrace::evidence {

using python::Ref;

// A method that moves its object in place gives None.
bool HolderKinds::gives_a_value(PyObject* function) {
  const Ref code = python::attribute(api_, function, "__code__");
  if (!code) return false;
  const std::string file = python::text(api_, python::attribute(api_, code.get(), "co_filename").get());
  const std::string name = python::text(api_, python::attribute(api_, code.get(), "co_name").get());
  const auto line =
      static_cast<int>(python::integer(api_, python::attribute(api_, code.get(), "co_firstlineno").get(), 0));
  const FunctionText* const method = texts_.at(file, source_.file(file), name, line);
  if (!method) return false;
  std::istringstream lines(method->text);
  for (std::string text; std::getline(lines, text);)
    if (trimmed(text).starts_with("return ") && trimmed(text) != "return None") return true;
  return false;
}

HolderKinds::Kind HolderKinds::ask(PyObject* type) {
  Kind kind;
  if (python::is_builtin(api_, type)) return kind;
  const Ref to = python::attribute(api_, type, "to");
  kind.moves = to && gives_a_value(to.get());
  const Ref parameters = python::attribute(api_, type, "__dataclass_params__");
  const Ref frozen = parameters ? python::attribute(api_, parameters.get(), "frozen") : Ref();
  kind.frozen = frozen && python::is_true(api_, frozen.get());
  return kind;
}

std::string HolderKinds::of(const finding::Name& name) {
  // Of a variable nothing has it, and each text that is parsed costs.
  if (last_step(name.name).empty() || name.name.find('(') != std::string::npos) return {};
  const Expression read = read_expression(api_, name.name, true, "");
  const auto itself =
      std::ranges::find_if(read.mentioned, [&](const Path& path) { return to_string(path) == name.name; });
  if (itself == read.mentioned.end() || itself->steps.empty()) return {};
  Path path = *itself;
  const bool attribute = path.steps.back().kind == Step::attribute;
  path.steps.pop_back();
  const Scope::Found holder = scope_.follow(path, name.frame);
  if (!holder.value || torch_.is_module(holder.value.get())) return {};
  const auto kind_of = [&](const Scope::Found& found) -> const Kind& {
    return classes_.of(found.value.get(), [this](PyObject* type) { return ask(type); });
  };
  const Ref type = python::type_of(api_, holder.value.get());
  const bool builtin = python::is_builtin(api_, type.get());
  if (!attribute) {
    if (!builtin) return kind_of(holder).moves ? "moves" : "";
    if (path.steps.size() != 1) return {};
    const Scope::Found outer = scope_.follow(Path{path.variable, {}}, name.frame);
    return outer.value && !torch_.is_module(outer.value.get()) && kind_of(outer).moves ? "within" : "";
  }
  if (kind_of(holder).moves) return "moves";
  const bool tuple = !builtin && python::shape_of(api_, holder.value.get()) == python::Shape::tuple;
  return tuple || kind_of(holder).frozen ? "frozen" : "";
}

}  // namespace devtrace::evidence
