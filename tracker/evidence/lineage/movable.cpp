#include "tracker/evidence/lineage/movable.h"

#include <sstream>

#include "common/text.h"
#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/source/expression.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

// A method that moves its object in place gives None.
bool gives_a_value(const Api& api, PyObject* function, const SourceText& source) {
  const Ref code = python::attribute(api, function, "__code__");
  if (!code) return false;
  const std::string file = python::text(api, python::attribute(api, code.get(), "co_filename").get());
  const std::string name = python::text(api, python::attribute(api, code.get(), "co_name").get());
  const auto line =
      static_cast<int>(python::integer(api, python::attribute(api, code.get(), "co_firstlineno").get(), 0));
  FunctionTexts texts(api);
  const FunctionText* const method = texts.at(file, source.file(file), name, line);
  if (!method) return false;
  std::istringstream lines(method->text);
  for (std::string text; std::getline(lines, text);)
    if (trimmed(text).starts_with("return ") && trimmed(text) != "return None") return true;
  return false;
}

bool is_frozen(const Api& api, PyObject* type) {
  const Ref parameters = python::attribute(api, type, "__dataclass_params__");
  const Ref frozen = parameters ? python::attribute(api, parameters.get(), "frozen") : Ref();
  return frozen && python::is_true(api, frozen.get());
}

}  // namespace

std::string kind_of_holder(const Api& api, const Torch& torch, const Scope& scope, const finding::Name& name,
                           const SourceText& source) {
  // Of a variable nothing has it, and each text that is parsed costs.
  if (name.name.find_first_of(".[") == std::string::npos || name.name.find('(') != std::string::npos) return {};
  const Expression read = read_expression(api, name.name, true, "");
  if (read.mentioned.size() != 1 || read.mentioned[0].steps.empty() || to_string(read.mentioned[0]) != name.name)
    return {};
  Path path = read.mentioned[0];
  const bool attribute = path.steps.back().kind == Step::attribute;
  path.steps.pop_back();
  const Scope::Found holder = scope.follow(path, name.frame);
  if (!holder.value || torch.is_module(holder.value.get())) return {};
  const Ref type = python::type_of(api, holder.value.get());
  if (python::is_builtin(api, type.get())) return {};
  if (const Ref to = python::attribute(api, type.get(), "to"); to && gives_a_value(api, to.get(), source))
    return "moves";
  const bool tuple = python::shape_of(api, holder.value.get()) == python::Shape::tuple;
  return attribute && (tuple || is_frozen(api, type.get())) ? "frozen" : "";
}

}  // namespace devtrace::evidence
