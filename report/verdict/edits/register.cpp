// Tensors and modules of a module that it has not registered, registered in the line that assigns them.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

// By the name that the file has for torch.nn, as far as its lines that were seen show it: the same line first.
std::string_view name_of_nn(const Frame& line, const Operand& it) {
  const auto shows = [](std::string_view text, std::string_view name) {
    for (size_t at = 0; (at = text.find(name, at)) != text.npos; ++at)
      if (at == 0 || std::string_view(" [({=\n").find(text[at - 1]) != std::string_view::npos) return true;
    return false;
  };
  std::vector<std::string_view> texts{line.source};
  for (const Event* event : {&it.created, &it.moved})
    for (const Frame& frame : event->stack)
      if (frame.file == line.file) texts.insert(texts.end(), {frame.source, frame.around.text});
  for (const std::string_view text : texts)
    for (const std::string_view name : {"torch.nn.", "nn."})
      if (shows(text, name)) return name;
  return "torch.nn.";
}

// Is the name's last key a method of a module's? nn.ModuleDict refuses it.
bool names_a_method(std::string_view name) {
  constexpr std::string_view kMethods[] = {"train", "eval", "type",   "to",    "cpu",     "cuda",  "half",
                                           "float", "keys", "values", "items", "forward", "apply", "double"};
  return std::any_of(std::begin(kMethods), std::end(kMethods), [&](std::string_view method) {
    return name.ends_with(fmt::format("[\"{}\"]", method)) || name.ends_with(fmt::format("['{}']", method));
  });
}

}  // namespace

std::optional<Fix> register_buffer(const Frame& made, const Operand& it) {
  const std::string line = dedented(made.source);
  constexpr std::string_view kSelf = "self.";
  const size_t equals = line.find(" = ");
  if (!line.starts_with(kSelf) || equals == line.npos || line.find('#') != line.npos) return std::nullopt;
  const std::string name = line.substr(kSelf.size(), equals - kSelf.size());
  const std::string value = line.substr(equals + 3);
  if (!is_identifier(name) || value.empty() || value.back() == '\\') return std::nullopt;
  // The line may construct the object that has the tensor.
  const auto is_it = [&](std::string_view known) { return known.ends_with("." + name); };
  if (!is_it(it.name) &&
      std::none_of(it.names.begin(), it.names.end(), [&](const auto& each) { return is_it(each.name); }) &&
      std::none_of(it.held_by.begin(), it.held_by.end(), [&](const auto& each) { return is_it(each.name); }))
    return std::nullopt;
  // A name that the module has already as an attribute is refused. Registered as None, it takes the tensor.
  const auto lines = statements_around(made);
  for (const auto& [number, text] : lines) {
    const bool above = number < made.line && in_one_function(lines, number, made.line);
    if (!above || dedented(text) != fmt::format("self.{} = None", name)) continue;
    Frame before = made;
    before.line = number;
    return repair_of(before, fmt::format("self.register_buffer(\"{}\", None, persistent=False)", name));
  }
  return repair_of(made, fmt::format("self.register_buffer(\"{}\", {}, persistent=False)", name, value));
}

std::optional<Fix> register_of_object(const Operand::Hidden& hidden, const Operand& it) {
  const auto& holders = hidden.chain->holders;
  if (hidden.module + 2 >= holders.size() || holders[hidden.module + 1].kind != "object") return std::nullopt;
  const Holder &owner = hidden.owner(), &object = holders[hidden.module + 1], &module = holders[hidden.module + 2];
  if (!module.is_module() || owner.bound.line <= 0 || object.holds != "attribute") return std::nullopt;
  const std::string path = module.name.substr(std::min(owner.name.size(), module.name.size()));
  const std::string of_object = path.substr(0, path.rfind('.'));
  std::string name = path.substr(std::min<size_t>(1, path.size()));
  std::ranges::replace(name, '.', '_');
  const std::string statement = dedented(owner.bound.source);
  if (!is_identifier(name) || !statement.starts_with(fmt::format("self{} = ", of_object)) ||
      statement.find('\n') != statement.npos)
    return std::nullopt;
  if (object.modules.size() < 2)
    return repair_of(owner.bound, fmt::format("{}\nself.add_module(\"{}\", self{})", statement, name, path));
  std::string all;
  for (const finding::Part& part : object.modules)
    all += fmt::format("{}self{}.{}", all.empty() ? "" : ", ", of_object, part.name);
  return repair_of(owner.bound, fmt::format("{}\nself{}_modules = {}ModuleList([{}])", statement, of_object,
                                            name_of_nn(owner.bound, it), all));
}

std::optional<Fix> register_modules(const Chain& chain, size_t index, const Operand& it) {
  const auto& holders = chain.holders;
  if (index + 2 >= holders.size() || !holders[index + 2].is_module()) return std::nullopt;
  const std::string_view kind = holders[index + 1].kind;
  const Frame& bound = holders[index].bound;
  if ((kind != "list" && kind != "dict") || bound.line <= 0) return std::nullopt;
  if (kind == "dict" && names_a_method(holders[index + 2].name)) return std::nullopt;
  auto code =
      wrap_value(bound.source, fmt::format("{}Module{}", name_of_nn(bound, it), kind == "list" ? "List" : "Dict"));
  if (!code) return std::nullopt;
  return repair_of(bound, std::move(*code));
}

}  // namespace devtrace::report::verdict
