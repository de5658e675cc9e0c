// A tensor that is a plain attribute of a module: model.to(), state_dict() and accelerate know of parameters and
// buffers only.
#include <fmt/format.h>

#include "report/characters.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {
namespace {

// `self.anchors = torch.tensor(…)` → `self.register_buffer("anchors", torch.tensor(…), persistent=False)`: without
// persistent=False old checkpoints would no longer load.
std::optional<Fix> register_it(const Frame& made) {
  const std::string line = dedented(made.source);
  constexpr std::string_view kSelf = "self.";
  const size_t equals = line.find(" = ");
  if (!line.starts_with(kSelf) || equals == line.npos || line.find('#') != line.npos) return std::nullopt;
  const std::string name = line.substr(kSelf.size(), equals - kSelf.size());
  const std::string value = line.substr(equals + 3);
  if (!is_identifier(name) || value.empty() || value.back() == '\\') return std::nullopt;
  return Fix{fmt::format("self.register_buffer(\"{}\", {}, persistent=False)", name, value), std::string(made.file),
             made.line};
}

}  // namespace

std::optional<Cause> state_not_registered(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return it.role == "attribute" && !it.is_state() && !names_a_cache(it.name) && !evidence.made_inside_model(it);
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
  if (in_init && made->project && !it.moved.known) cause.fix = register_it(*made);
  if (!cause.fix) cause.fix = move_where_named(evidence, it, *pair.other);
  return cause;
}

}  // namespace devtrace::report::causes::rules
