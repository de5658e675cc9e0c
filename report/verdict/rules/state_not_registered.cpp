// A tensor that is a plain attribute of a module: model.to(), state_dict() and accelerate know of parameters and
// buffers only.
#include <algorithm>

#include "common/cache_names.h"
#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {
namespace {

// A plain attribute; or it came as an argument from a module further out, which holds it as `self.freqs_cis` since it
// was constructed.
bool is_attribute(const Evidence& evidence, const Operand& operand) {
  if (operand.role == "attribute") return true;
  const Frame* made = operand.created.line();
  const auto caller = evidence.caller_of_model();
  if (!caller || !made || !made->function.ends_with("__init__") || operand.is_of_state()) return false;
  return std::any_of(operand.names.begin(), operand.names.end(), [&](const Operand::Name& each) {
    return each.frame < *caller && each.name.starts_with("self.") && is_identifier(each.name.substr(5));
  });
}

}  // namespace

std::optional<Cause> state_not_registered(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return is_attribute(evidence, it) && !it.is_state() && !names_a_cache(it.name) &&
               !evidence.made_inside_model(it);
      },
      [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const Frame* made = it.created.line();
  const bool in_init = made && made->function.ends_with("__init__");
  const bool of_module = !it.module_class.empty() || !it.root_class.empty() || evidence.caller_of_model().has_value();
  if (!of_module) return std::nullopt;

  Cause cause{
      "state-not-registered", in_init && !it.moved.known ? Confidence::high : Confidence::medium,
      fmt::format("{} is a plain attribute of {}, neither a parameter nor a buffer, so moving the model left it "
                  "behind; it meets {}.",
                  with_place(it), it.module_class.empty() ? "a module" : it.module_class, with_place(*pair.other)),
      std::nullopt};
  if (in_init && made->project && !it.moved.known) cause.fix = register_buffer(*made);
  if (!cause.fix) cause.fix = move_where_named(evidence, it, *pair.other);
  return cause;
}

}  // namespace devtrace::report::causes::rules
