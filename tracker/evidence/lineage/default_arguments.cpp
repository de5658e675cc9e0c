#include "tracker/evidence/lineage/default_arguments.h"

#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "tracker/evidence/source/expression.h"
#include "tracker/evidence/source/syntax_tree.h"

namespace devtrace::evidence {
namespace {

using python::Ref;
using stacks::PythonFrame;

// What a call gives to a parameter.
struct Given {
  std::string call;                 // what is called; empty: the line has no call of it, or several
  std::optional<std::string> name;  // of the variable; empty for another expression; nothing: it is left out
  std::string text;                 // of the expression
};

// `place`: among the arguments of the call.
Given given(const SyntaxTree& tree, PyObject* call, const std::string& parameter, size_t place) {
  Given out{tree.text(tree.part(call, "func").get()), std::nullopt, {}};
  const auto take = [&](PyObject* value) {
    out.name = tree.name(value, "id");
    out.text = tree.text(value);
  };
  const std::vector<Ref> arguments = tree.parts(call, "args");
  const auto unpacked = [&](const Ref& each) { return tree.kind(each.get()) == "Starred"; };
  if (std::any_of(arguments.begin(), arguments.end(), unpacked)) return {};
  if (place < arguments.size()) take(arguments[place].get());
  bool more = false;  // `**kwargs`, which may have it
  for (const Ref& each : tree.parts(call, "keywords")) {
    const std::string keyword = tree.name(each.get(), "arg");
    more = more || keyword.empty();
    if (keyword == parameter) take(tree.part(each.get(), "value").get());
  }
  return more && !out.name ? Given{} : out;
}

Given given_by(const python::Api& api, const std::string& line, const PythonFrame& called, const FunctionText& function,
               const std::string& parameter) {
  const std::string own = called.function.substr(called.function.rfind('.') + 1);  // of super().__init__(…), too
  const std::string wanted = name_in_a_call(called.function);
  SyntaxTree tree(api, line, SyntaxTree::kStatements);
  if (!tree.root()) return {};
  const auto at = std::find(function.parameters.begin(), function.parameters.end(), parameter);
  const size_t place = static_cast<size_t>(at - function.parameters.begin()) - (function.method ? 1 : 0);
  Given found;
  bool several = false;
  tree.each(tree.root(), [&](PyObject* node) {
    if (tree.kind(node) != "Call") return true;
    const std::string callee = tree.text(tree.part(node, "func").get());
    const std::string name = callee.substr(callee.rfind('.') + 1);
    const bool by_class = callee == "cls" && own == "__init__";  // in a method of the class
    if (name != own && name != wanted && !by_class) return true;
    several = several || !found.call.empty();
    found = given(tree, node, parameter, place);
    return true;
  });
  return several ? Given{} : found;
}

// Does a statement of the function compute what it gives the one from the other: `self.device = torch.device(device)`?
bool binds_from(const FunctionText& function, const std::string& variable, const std::string& other) {
  return std::ranges::any_of(function.bindings(variable),
                             [&](int line) { return function.binds_from_itself(line, other); });
}

// Does the function use what it was given for it? It may put something in the place of None, and make another thing of
// it: `device = torch.device(device)`.
bool is_used(const FunctionText& function, const std::string& parameter) {
  const auto otherwise = function.defaults.find(parameter);
  const std::vector<int>& bound = function.bindings(parameter);
  return (otherwise != function.defaults.end() && otherwise->second == "None") ||
         std::all_of(bound.begin(), bound.end(), [&](int line) { return function.binds_from_itself(line, parameter); });
}

// `x.to(self.device)`: not by what the function was given, unless it has kept that there itself.
bool says_device_of_self(const python::Api& api, const std::string& line, const FunctionText& function,
                         const std::string& parameter) {
  const std::vector<Path> devices = read_expression(api, line, false, "").devices;
  return !devices.empty() && std::all_of(devices.begin(), devices.end(), [&](const Path& each) {
    return each.variable == "self" && !binds_from(function, to_string(each), parameter);
  });
}

// What the function has for a device, and reads up to that line for more than to keep it. `self.device = device` says
// nothing of a tensor that a later line makes.
std::string device_parameter(const FunctionText& function, int line) {
  for (const std::string& each : function.parameters)
    if ((each == "device" || each.ends_with("_device")) && is_used(function, each) && function.works_with(each, line))
      return each;
  return {};
}

// The line of `def __init__(` of that class in its file, which is no module's; 0: there is none.
int constructor_in(const Lines& lines, const std::string& type) {
  const auto begins = [](std::string_view line, std::string_view words) { return trimmed(line).starts_with(words); };
  const std::string name = "class " + type;
  const auto declared = std::ranges::find_if(
      lines, [&](const std::string& line) { return begins(line, name + "(") || begins(line, name + ":"); });
  if (declared == lines.end() || declared->find("Module") != declared->npos) return 0;
  for (auto line = declared + 1; line != lines.end() && !begins(*line, "class "); ++line)
    if (begins(*line, "def __init__(")) return static_cast<int>(line - lines.begin()) + 1;
  return 0;
}

// Does the constructor say that device, or any GPU, in the place of what it was not told?
bool says_instead(std::string_view constructor, std::string_view device) {
  const std::string_view kind = device.substr(0, device.find(':'));
  for (const char quote : {'"', '\''})
    for (const std::string_view name : {device, kind})
      if (constructor.find(fmt::format("{0}{1}{0}", quote, name)) != constructor.npos) return true;
  return false;
}

// `cpu` of `"cpu"` and of `torch.device("cpu")`; empty for another text.
std::string_view named_by(std::string_view text) {
  constexpr std::string_view kDevice = "torch.device(";
  if (text.starts_with(kDevice) && text.ends_with(')'))
    text = text.substr(kDevice.size(), text.size() - kDevice.size() - 1);
  if (text.size() < 2 || text.find_first_of("\"'") != 0 || text.find(text[0], 1) != text.size() - 1) return {};
  return text.substr(1, text.size() - 2);
}

// Is it called so, `cuda:1`, or as any GPU is, `cuda`?
bool is_called(std::string_view device, std::string_view name) {
  return device.starts_with(name) && (device.size() == name.size() || device[name.size()] == ':');
}

// Is that the text of a device, `"cpu"`, or of any GPU, `"cuda"`, which it then is?
bool means(std::string_view text, std::string_view device) {
  const std::string_view name = named_by(text);
  return !name.empty() && is_called(device, name);
}

// Does the method's line say the device that the constructor has kept of that parameter, or a variable that has it?
bool says_kept(const python::Api& api, const std::string& line, const FunctionText& method,
               const FunctionText& constructor, const std::string& parameter) {
  const std::vector<Path> said = read_expression(api, line, false, "").mentioned;
  return std::ranges::any_of(constructor.bound, [&](const auto& each) {
    const std::string& kept = each.first;
    return kept.starts_with("self.") && kept.ends_with(parameter) && binds_from(constructor, kept, parameter) &&
           std::ranges::any_of(said, [&](const Path& path) {
             return to_string(path) == kept || binds_from(method, path.variable, kept);
           });
  });
}

}  // namespace

std::optional<ConstructorCall> constructed_without_device(const python::Api& api, const PythonFrame& method,
                                                          std::string_view device, const KnownNames& names,
                                                          const SourceText& source) {
  const std::string type = method.function.substr(0, method.function.find('.'));
  if (type.size() == method.function.size() || method.function.find('<') != method.function.npos) return std::nullopt;
  const int first = constructor_in(source.file(method.file), type);
  const PythonFrame constructor{method.file, type + ".__init__", first};
  const FunctionText* const function =
      first > 0 ? names.function_of(constructor.file, constructor.function, first) : nullptr;
  const FunctionText* const code = names.function_of(method.file, method.function, method.line);
  if (!function || !code) return std::nullopt;
  const std::string line_of_method = source.lines(method.file, method.line);
  for (const std::string& parameter : function->parameters) {
    const auto otherwise = function->defaults.find(parameter);
    if (!(parameter == "device" || parameter.ends_with("_device")) || otherwise == function->defaults.end() ||
        !says_kept(api, line_of_method, *code, *function, parameter))
      continue;
    const bool chosen =
        otherwise->second == "None" ? says_instead(function->text, device) : means(otherwise->second, device);
    if (!chosen) continue;
    const auto line = names.only_construction_of(type);
    if (!line) return std::nullopt;
    const Given by = given_by(api, source.lines(line->file, line->line), constructor, *function, parameter);
    if (by.call.empty() || by.name) return std::nullopt;
    return ConstructorCall{*line, by.call, parameter, otherwise->second};
  }
  return std::nullopt;
}

std::optional<DeviceArgument> device_argument(const python::Api& api, const std::vector<PythonFrame>& made,
                                              size_t frame, const KnownNames& names, const SourceText& source) {
  std::string parameter;
  for (; frame + 1 < made.size(); ++frame) {
    if (!is_project_file(made[frame + 1].file, source.standard_library)) return std::nullopt;
    if (is_comprehension(made[frame].function)) continue;
    const FunctionText* function = names.function_of(made[frame].file, made[frame].function, made[frame].line);
    if (!function || function->module) return std::nullopt;
    if (parameter.empty()) {
      parameter = device_parameter(*function, made[frame].line);
      const std::string line = source.lines(made[frame].file, made[frame].line);
      if (!parameter.empty() && says_device_of_self(api, line, *function, parameter)) return std::nullopt;
    }
    if (parameter.empty() || !is_used(*function, parameter)) return std::nullopt;
    const auto& all = function->parameters;
    if (std::find(all.begin(), all.end(), parameter) == all.end()) return std::nullopt;
    const Given by =
        given_by(api, source.lines(made[frame + 1].file, made[frame + 1].line), made[frame], *function, parameter);
    if (by.call.empty()) return std::nullopt;
    if (!by.name) {
      const auto otherwise = function->defaults.find(parameter);
      if (otherwise == function->defaults.end()) return std::nullopt;
      return DeviceArgument{frame + 1, by.call, parameter, true, otherwise->second};
    }
    const FunctionText* caller =
        names.function_of(made[frame + 1].file, made[frame + 1].function, made[frame + 1].line);
    const bool passed_on =
        caller && !by.name->empty() &&
        std::find(caller->parameters.begin(), caller->parameters.end(), *by.name) != caller->parameters.end();
    if (!passed_on) return DeviceArgument{frame + 1, by.call, parameter, false, by.text};
    parameter = *by.name;
  }
  return std::nullopt;
}

bool says_another(const DeviceArgument& said, const std::vector<PythonFrame>& made, uint64_t time,
                  std::string_view device, const KnownNames& names) {
  std::string name(named_by(said.value));
  if (name.empty() && !said.left_out) name = names.device_meant(made, said.frame, time, said.value);
  // `auto` is whatever the function makes of it.
  constexpr std::string_view kKinds[] = {"cpu", "cuda", "meta"};
  const bool known = std::ranges::any_of(kKinds, [&](std::string_view kind) { return is_called(name, kind); });
  return known && !is_called(device, name);
}

}  // namespace devtrace::evidence
