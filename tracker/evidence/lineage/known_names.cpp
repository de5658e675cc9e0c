#include "tracker/evidence/lineage/known_names.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "common/format.h"
#include "common/text.h"
#include "tracker/evidence/named_devices.h"
#include "tracker/evidence/source/expression.h"
#include "tracker/interface/platform.h"
#include "tracker/memory/provenance.h"
#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

// The better an expression follows the data, the lower: the device of an operand, of another tensor. Then a device that
// is kept, that of a part, that of a whole module.
enum Rank { kOperand, kTensor, kDevice, kPart, kModule, kSpread };
constexpr int kMostSubmodules = 2000;  // modules that are looked at for one of a class
constexpr size_t kMostFiles = 200;     // of the program, that are looked through for a line
constexpr int kOfOtherVariables = 1;   // a parameter is there whatever the function does

bool speaks_of_a_device(const std::string& name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("device") != lower.npos;
}

bool numbered(const std::string& device) {
  return device == "cpu" || device.starts_with("cuda:");
}

// `layers.0.weight` is no expression.
bool is_dotted_name(const std::string& name) {
  bool begins = true;
  for (const char c : name) {
    if (begins && std::isdigit(static_cast<unsigned char>(c))) return false;
    begins = c == '.';
  }
  return true;
}

// `["epoch"]` for `["x"]`, both as text.
bool is_other_key(std::string_view stored, std::string_view wanted) {
  const auto text = [](std::string_view subscript) {
    const bool quoted = subscript.size() > 4 && (subscript[1] == '"' || subscript[1] == '\'');
    return quoted ? subscript.substr(2, subscript.find(subscript[1], 2) - 2) : std::string_view();
  };
  return !text(stored).empty() && !text(wanted).empty() && text(stored) != text(wanted);
}

std::string called_name(const Operation& operation) {
  if (!operation.callee || !operation.callee->path) return {};
  const Path& path = *operation.callee->path;
  return path.steps.empty() ? path.variable : path.steps.back().name;
}

// Of the function, which a call gives the value; empty where the text does not say which one.
std::string parameter_of(const Value& given, const FunctionText& function) {
  std::string name = given.keyword;
  if (name.empty()) {
    if (given.place.size() != 1 || given.place[0] == Value::kReceiver) return {};
    const size_t index = static_cast<size_t>(given.place[0]) + (function.method ? 1 : 0);
    if (index >= function.parameters.size()) return {};
    name = function.parameters[index];
  }
  const auto& all = function.parameters;
  return std::find(all.begin(), all.end(), name) == all.end() ? std::string() : name;
}

}  // namespace

KnownNames::KnownNames(const Api& api, const Torch& torch, const std::vector<Frame>& frames, const Scope& scope,
                       ObjectWalk& walk, Holders& holders, const SourceText& source, std::vector<PyObject*> operands)
    : api_(api),
      torch_(torch),
      frames_(frames),
      scope_(scope),
      walk_(walk),
      holders_(holders),
      source_(source),
      texts_(api),
      operands_(std::move(operands)) {
  const auto ask = platform().current_device;
  if (const int index = ask ? ask() : -1; index >= 0) current_ = fmt::format("cuda:{}", index);
}

// Variables that have had their value since before the line. What the statement that is under way will give one is not
// its value yet.
std::vector<KnownNames::Known> KnownNames::of_live(const FunctionText& function, const LiveLine& line) const {
  std::vector<Known> names;
  const int now = frames_[line.frame].source_line;
  scope_.for_each_local(line.frame, [&](const std::string& name, PyObject* value) {
    const bool parameter = !function.module && frames_[line.frame].is_parameter(api_, name);
    std::vector<int> bound = function.bindings(name);
    std::erase(bound, now);
    const bool given = parameter || (!function.module && frames_[line.frame].is_of_closure(api_, name));
    if ((given || !bound.empty()) && !function.begins_as_number(name) &&
        std::all_of(bound.begin(), bound.end(), [&](int each) { return each < line.line; }))
      names.push_back({name, Ref::borrowed(api_, value), parameter});
  });
  return names;
}

// The names of the module that a file is. It is one of a function that runs, or was imported under the file's name or
// with its packages' in front.
Ref KnownNames::module_code(const std::string& file) const {
  const auto frame = std::find_if(frames_.begin(), frames_.end(), [&](const Frame& each) { return each.file == file; });
  if (frame != frames_.end()) return frame->globals(api_);
  constexpr std::string_view kPython = ".py";
  if (!file.ends_with(kPython)) return {};
  std::string name;
  for (std::string_view rest = std::string_view(file).substr(0, file.size() - kPython.size()); !rest.empty();) {
    const size_t slash = rest.rfind('/');
    const std::string_view part = rest.substr(slash + 1);
    if (!is_dotted_name(std::string(part))) break;
    if (part != "__init__" || !name.empty()) name = name.empty() ? std::string(part) : fmt::format("{}.{}", part, name);
    rest = rest.substr(0, slash == rest.npos ? 0 : slash);
    const Ref module = python::imported_module(api_, name.c_str());
    Ref names = module ? python::instance_dict(api_, module.get()) : Ref();  // attributes may be a program's code
    if (const Ref from = names ? python::entry(api_, names.get(), "__file__") : Ref();
        from && python::text(api_, from.get()) == file)
      return names;
  }
  return {};
}

// Devices that it keeps.
std::vector<KnownNames::Known> KnownNames::of_module_code(const std::string& file) const {
  std::vector<Known> names;
  const Ref globals = module_code(file);
  for (python::DictEntries each(api_, globals.get()); each.next();) {
    const std::string name = python::text(api_, each.key());
    if (speaks_of_a_device(name)) names.push_back({name, Ref::borrowed(api_, each.value())});
  }
  return names;
}

// Of the method's class, in a variable of a running function, or a part of a module that is; empty: there are several.
Ref KnownNames::only_object_of(const std::string& method) const {
  const std::string type = method.substr(0, method.rfind('.'));
  // A method of it that runs has it: the operation is about that one.
  for (size_t frame = 0; frame < frames_.size(); ++frame)
    if (Ref running = scope_.follow(Path{"self", {}}, frame).value; running && is_of_class(api_, running.get(), type))
      return running;
  Ref self;
  bool several = false;
  const auto look = [&](PyObject* value) {
    if (class_of(api_, value) != type || value == self.get()) return;
    several = several || self;
    self = Ref::borrowed(api_, value);
  };
  for (size_t frame = 0; frame < frames_.size(); ++frame)
    scope_.for_each_local(frame, [&](const std::string&, PyObject* value) { look(value); });
  if (self) return several ? Ref() : std::move(self);
  int left = kMostSubmodules;
  for (size_t frame = 0; frame < frames_.size(); ++frame)
    scope_.for_each_local(frame, [&](const std::string&, PyObject* value) {
      if (torch_.is_module(value)) each_below(value, left, look);
    });
  return several ? Ref() : std::move(self);
}

void KnownNames::each_below(PyObject* module, int& left, const std::function<void(PyObject*)>& visit) const {
  const Ref children = child_table(module);
  for (python::DictEntries each(api_, children.get()); each.next();) {
    if (!torch_.is_module(each.value()) || --left < 0) continue;
    visit(each.value());
    each_below(each.value(), left, visit);
  }
}

finding::List<finding::DeviceExpression> KnownNames::devices_of_stored_state(const std::string& type,
                                                                             const std::string& attribute,
                                                                             stacks::PythonFrame& line) const {
  const Ref self = only_object_of(type + ".");
  const finding::Frame stored = self ? holders_.method_that_stores(self.get(), attribute) : finding::Frame();
  if (stored.line <= 0) return {};
  line = {stored.file, type + "." + stored.function, static_cast<int>(stored.line)};
  // The module's own tensors lay there then: a move of it would have brought this one along.
  const FunctionText* function = function_of(line.file, line.function, line.line);
  std::vector<Candidate> candidates;
  if (function && function->method) add_devices_of_self(line, {}, *function, candidates);
  return best_of(std::move(candidates));
}

// Of the only object of the method's class that a variable of a running function holds. It may have been constructed
// then: what it keeps counts where the method has named that before the line, or the constructor had kept it before.
void KnownNames::add_devices_of_self(const stacks::PythonFrame& made, const std::vector<stacks::PythonFrame>& stack,
                                     const FunctionText& function, std::vector<Candidate>& out) const {
  const Ref self = function.parameters[0] == "self" ? only_object_of(made.function) : Ref();  // a class has none of it
  if (!self) return;
  const Lines& lines = source_.file(made.file);
  const auto kept_before = [&](const std::string& attribute) {
    const std::string constructor = made.function.substr(0, made.function.rfind('.')) + ".__init__";
    if (made.function == constructor) return false;
    const int line = static_cast<int>(holders_.line_that_stores(self.get(), attribute).line);
    const auto running = std::find_if(stack.begin(), stack.end(),
                                      [&](const stacks::PythonFrame& each) { return each.function == constructor; });
    return line > 0 && (running == stack.end() || line < running->line);
  };
  const auto names = [](std::string_view code, const std::string& expression) {
    const size_t at = code.find(expression);
    const size_t end = at == code.npos ? code.size() : at + expression.size();
    return at != code.npos && (end == code.size() || !word_char(code[end]));
  };
  const std::string here = source_.lines(made.file, made.line);
  const std::string_view read = std::string_view(here).substr(Scan(here).value_begins);
  const auto named_in_lines = [&](const std::string& expression) {
    return names(read, expression) || std::any_of(lines.begin() + function.first - 1, lines.begin() + made.line - 1,
                                                  [&](const std::string& code) { return names(code, expression); });
  };
  const auto named_before = [&](PyObject* key, const std::string& expression) {
    return named_in_lines(expression) || kept_before(python::text(api_, key));
  };
  const Ref attributes = python::instance_dict(api_, self.get());
  if (torch_.is_module(self.get()))
    for_each_state_tensor(api_, torch_, self.get(), [&](PyObject* tensor, const std::string& name, const char*) {
      const std::string expression = function.parameters[0] + "." + name;
      if (!torch_.is_opaque(tensor) && is_dotted_name(name) && named_in_lines(expression))
        out.push_back({kPart * 2, expression + ".device", torch_.placement(tensor).device, tensor});
      return true;
    });
  const auto expression_of = [&](PyObject* key) { return function.parameters[0] + "." + python::text(api_, key); };
  const Ref children = child_table(self.get());
  for (python::DictEntries each(api_, children.get()); each.next();)
    if (torch_.is_module(each.value()) && named_before(each.key(), expression_of(each.key())))
      add_candidates({expression_of(each.key()), Ref::borrowed(api_, each.value())}, out);
  for (python::DictEntries each(api_, attributes.get()); each.next();) {
    const std::string name = python::text(api_, each.key());
    const std::string expression = expression_of(each.key());
    const bool tensor = torch_.is_tensor(each.value()) || torch_.is_module(each.value());
    if ((!tensor && !speaks_of_a_device(name)) || !named_before(each.key(), expression)) continue;
    if (tensor)
      add_candidates({expression, Ref::borrowed(api_, each.value())}, out);
    else
      add_device(expression, each.value(), kDevice * 2 + kOfOtherVariables, out);
  }
}

Ref KnownNames::follow(const std::vector<Known>& names, std::optional<size_t> live, const Path& path) const {
  const auto known =
      std::find_if(names.begin(), names.end(), [&](const Known& each) { return each.name == path.variable; });
  if (known == names.end()) return {};
  if (live) return scope_.follow(path, *live).value;
  Ref value = Ref::borrowed(api_, known->value.get());
  for (size_t i = 0; value && i < path.steps.size(); ++i) value = walk_.step(value.get(), path.steps[i]).first;
  return value;
}

std::vector<KnownNames::Known> KnownNames::through_call(const std::vector<Known>& outside, std::optional<size_t> live,
                                                        const stacks::PythonFrame& caller,
                                                        const stacks::PythonFrame& called, const FunctionText& function,
                                                        bool module) const {
  const bool constructs = called.function == "__init__" || called.function.ends_with(".__init__");
  const std::string wanted = name_in_a_call(called.function);
  const std::vector<Operation> operations =
      read_expression(api_, source_.lines(caller.file, caller.line), false, "").operations;
  const Operation* call = nullptr;
  Ref receiver;
  for (const Operation& each : operations) {
    Ref self;
    if (module) {  // `model(x)` calls its forward
      if (!each.callee || !each.callee->path) continue;
      self = follow(outside, live, *each.callee->path);
      if (!self || !torch_.is_module(self.get())) continue;
    } else if (called_name(each) != wanted) {
      continue;
    }
    if (call) return {};  // which of the two?
    call = &each;
    receiver = std::move(self);
  }
  if (!call) return {};
  if (!module && function.method && !constructs && !call->callee->path->steps.empty()) {
    Path object = *call->callee->path;
    object.steps.pop_back();
    receiver = follow(outside, live, object);
  }
  std::vector<Known> names;
  if (receiver && function.method) names.push_back({function.parameters[0], std::move(receiver), true});
  for (const Value& value : call->given) {
    if (!value.path) continue;
    std::string name = parameter_of(value, function);
    if (name.empty()) continue;
    if (Ref given = follow(outside, live, *value.path)) names.push_back({std::move(name), std::move(given), true});
  }
  return names;
}

const FunctionText* KnownNames::function_of(const std::string& file, const std::string& name, int line) const {
  return source_.file ? texts_.at(file, source_.file(file), name, line) : nullptr;
}

bool KnownNames::computes_in_a_call(const FunctionText& function, const std::string& file, int line,
                                    std::string_view attribute) const {
  return std::ranges::any_of(function.methods_called_below(line), [&](const std::string& name) {
    const FunctionText* const method = texts_.beside(function, file, source_.file(file), name);
    return method && method->computes_below(method->first, attribute);
  });
}

// When a tensor came to its device; 0: not known.
static uint64_t since(const Torch& torch, PyObject* tensor) {
  const uintptr_t storage = torch.is_opaque(tensor) ? 0 : torch.facts(tensor).storage;
  const auto block = storage ? memory::provenance::block_at(storage) : std::nullopt;
  return block && !block->existed ? block->allocated.time : 0;
}

// A model that was moved below the line says nothing in it of where it is now.
void KnownNames::erase_later(std::vector<Candidate>& candidates, uint64_t time) const {
  std::erase_if(candidates, [&](const Candidate& each) { return each.tensor && since(torch_, each.tensor) > time; });
}

std::vector<KnownNames::Candidate> KnownNames::candidates_at(const std::vector<stacks::PythonFrame>& made, size_t frame,
                                                             uint64_t time) const {
  std::optional<LiveLine> line = live_line(made, frames_);
  if (!line) return {};
  size_t at = made.size() - (frames_.size() - line->frame);
  if (at < frame) {  // it has called what runs now: names of then, where it is still in that line
    line->frame += frame - at;
    line->line = made[frame].line;
    const Frame& here = frames_[line->frame];
    if (here.source_line != line->line && here.region.line != line->line) return {};
    at = frame;
  }
  const FunctionText* function = function_of(made[at].file, made[at].function, line->line);
  if (!function) return {};
  std::vector<Known> names = of_live(*function, *line);
  std::optional<size_t> live = line->frame;
  while (at > frame) {
    size_t inner = at - 1;
    bool module = false;
    for (; inner > frame && !is_project_file(made[inner].file, source_.standard_library); --inner)
      module = module || finding::is_module_call(made[inner].file, made[inner].function);
    // A frame of its own before Python 3.12; its names are those around it.
    if (is_comprehension(made[inner].function)) {
      at = inner;
      continue;
    }
    function = function_of(made[inner].file, made[inner].function, made[inner].line);
    if (!function) return {};
    names = through_call(names, live, made[at], made[inner], *function, module);
    std::erase_if(names, [&](const Known& each) { return !function->bindings(each.name).empty(); });
    live.reset();
    at = inner;
  }
  std::vector<Candidate> candidates;
  if (!function->module)
    for (Known& each : of_module_code(made[frame].file)) {
      const auto& own = function->parameters;
      const bool hidden = !function->bindings(each.name).empty() || std::ranges::find(own, each.name) != own.end();
      if (!hidden) names.push_back(std::move(each));
    }
  if (!live) {
    const bool self = std::any_of(names.begin(), names.end(), [](const Known& each) { return each.name == "self"; });
    if (!self && function->method) add_devices_of_self(made[frame], made, *function, candidates);
  }
  for (const Known& known : names) add_candidates(known, candidates);
  erase_later(candidates, time);
  return candidates;
}

finding::List<finding::DeviceExpression> KnownNames::devices_at(const std::vector<stacks::PythonFrame>& made,
                                                                size_t frame, uint64_t time) const {
  return best_of(candidates_at(made, frame, time));
}

std::string KnownNames::device_meant(const std::vector<stacks::PythonFrame>& made, size_t frame, uint64_t time,
                                     std::string_view expression) const {
  for (const Candidate& each : candidates_at(made, frame, time))
    if (each.expression == expression) return each.unnumbered ? "cuda" : each.device;
  return {};
}

finding::List<finding::DeviceExpression> KnownNames::devices_of_object(
    const stacks::PythonFrame& code, const std::vector<stacks::PythonFrame>& made) const {
  const FunctionText* function = function_of(code.file, code.function, code.line);
  std::vector<Candidate> candidates;
  if (function && function->method) add_devices_of_self(code, made, *function, candidates);
  std::erase_if(candidates, [](const Candidate& each) { return each.tensor != nullptr; });  // where it is now
  return best_of(std::move(candidates));
}

finding::List<finding::DeviceExpression> KnownNames::devices_of_given(const stacks::PythonFrame& caller,
                                                                      const stacks::PythonFrame& constructor,
                                                                      uint64_t time) const {
  const FunctionText* function = function_of(constructor.file, constructor.function, constructor.line);
  const Ref self = function && function->method ? only_object_of(constructor.function) : Ref();
  if (!self) return {};
  const std::string type = name_in_a_call(constructor.function);
  const std::vector<Operation> operations =
      read_expression(api_, source_.lines(caller.file, caller.line), false, "").operations;
  const auto constructs = [&](const Operation& each) { return called_name(each) == type; };
  const auto call = std::find_if(operations.begin(), operations.end(), constructs);
  if (call == operations.end() || std::count_if(operations.begin(), operations.end(), constructs) > 1) return {};
  const Ref children = child_table(self.get()), attributes = python::instance_dict(api_, self.get());
  std::vector<Candidate> candidates;
  for (const Value& given : call->given) {
    const std::string parameter = given.path ? parameter_of(given, *function) : std::string();
    if (parameter.empty()) continue;
    for (const Ref* table : {&children, &attributes})
      if (*table)
        if (Ref kept = python::entry(api_, table->get(), parameter))
          add_candidates({to_string(*given.path), std::move(kept)}, candidates);
  }
  erase_later(candidates, time);
  return best_of(std::move(candidates));
}

finding::List<finding::DeviceExpression> KnownNames::devices_in(size_t frame, int line) const {
  const Frame& here = frames_[frame];
  const int at = line > 0 ? line : here.source_line;
  const FunctionText* function = function_of(here.file, here.function, at);
  if (!function) return {};
  std::vector<Candidate> candidates;
  for (const Known& known : of_live(*function, {frame, at})) add_candidates(known, candidates);
  return best_of(std::move(candidates));
}

std::optional<int> KnownNames::line_that_binds(size_t frame, const std::string& name) const {
  const Frame& here = frames_[frame];
  const FunctionText* function = function_of(here.file, here.function, here.region.line);
  if (!function) return std::nullopt;
  const int now = here.source_line;
  if (const std::vector<int>& own = function->bindings(name); !own.empty()) return function->settled_above(own, now);
  // `batch["x"]` where a line stores `batch[key]`, or gives `batch` itself.
  const std::string container = name.substr(0, name.find('['));
  if (container.size() == name.size()) return std::nullopt;
  std::vector<int> stored;
  for (const auto& [target, lines] : function->bound)
    if (target.starts_with(container + "[") &&
        !is_other_key(target.substr(container.size()), name.substr(container.size())))
      stored.insert(stored.end(), lines.begin(), lines.end());
  if (stored.empty()) return function->settled_above(function->bindings(container), now);
  // It is there, so the only line that stores one has run.
  return stored.size() == 1 && stored[0] < now ? std::optional(stored[0]) : std::nullopt;
}

std::vector<finding::Name> KnownNames::variables_of(uintptr_t storage, const std::vector<finding::Name>& names) const {
  std::vector<finding::Name> found;
  for (size_t frame = 0; storage != 0 && frame < frames_.size(); ++frame) {
    const auto is_named = [&](const finding::Name& each) { return each.frame == frame; };
    if (!frames_[frame].project || std::ranges::any_of(names, is_named)) continue;
    scope_.for_each_local(frame, [&](const std::string& variable, PyObject* value) {
      if (!torch_.is_tensor(value) || torch_.is_opaque(value) || torch_.facts(value).storage != storage) return;
      const Expression line = read_expression(api_, frames_[frame].source, false, "");
      const auto is_read = [&](const Path& path) {
        return path.variable == variable && (path.steps.empty() || !asks_only(path.steps.back()));
      };
      if (std::ranges::any_of(line.used, is_read)) found.push_back({frame, variable});
    });
  }
  return found;
}

std::optional<stacks::PythonFrame> KnownNames::only_line(const IsMeant& meant) const {
  std::set<std::string> files;
  for (const Frame& each : frames_)
    if (each.project) files.insert(each.file);
  for (python::DictEntries each(api_, api_.PyImport_GetModuleDict()); each.next();) {
    const Ref names = python::instance_dict(api_, each.value());
    const std::string file = names ? python::text(api_, python::entry(api_, names.get(), "__file__").get()) : "";
    if (file.ends_with(".py") && is_project_file(file, source_.standard_library)) files.insert(file);
  }
  if (files.size() > kMostFiles) return std::nullopt;
  std::optional<stacks::PythonFrame> only;
  for (const std::string& file : files) {
    const Lines& lines = source_.file(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!meant(lines[i])) continue;
      if (only) return std::nullopt;
      only = {file, "", static_cast<int>(i) + 1};
    }
  }
  return only;
}

std::optional<stacks::PythonFrame> KnownNames::only_line_with(std::string_view text) const {
  return only_line([&](std::string_view line) {
    const size_t at = line.find(text);
    return at != line.npos && Scan(line).code[at] && !line.substr(at + text.size()).starts_with("None");
  });
}

std::optional<stacks::PythonFrame> KnownNames::only_construction_of(const std::string& type) const {
  const std::string call = type + "(";
  auto line = only_line([&](std::string_view line) {
    const size_t at = line.find(call);
    return at != line.npos && (at == 0 || !word_char(line[at - 1])) && Scan(line).code[at] &&
           !trimmed(line).starts_with("class ");
  });
  if (line) line->function = function_around(source_.file(line->file), line->line);
  return line;
}

std::optional<stacks::PythonFrame> KnownNames::line_that_made_generator(const std::string& type) const {
  constexpr std::string_view kGiven = "generator=";
  const auto constructed = only_line_with(type + "(");
  if (!constructed) return std::nullopt;
  const Lines& lines = source_.file(constructed->file);
  const std::string text = source_.lines(constructed->file, constructed->line);  // it may be of several lines
  size_t begin = text.find(kGiven), end = begin + kGiven.size();
  if (begin == text.npos) return std::nullopt;
  while (end < text.size() && word_char(text[end])) ++end;
  const std::string made = text.substr(begin + kGiven.size(), end - begin - kGiven.size()) + " = torch.Generator(";
  for (int line = constructed->line - 1; line > 0; --line)
    if (trimmed(lines[line - 1]).starts_with(made)) return stacks::PythonFrame{constructed->file, "", line};
  return only_line_with("torch.Generator(");
}

std::optional<bool> KnownNames::taken(std::optional<size_t> frame, std::string_view branch) const {
  constexpr std::string_view kIf = "if ", kNot = "not ";
  if (!branch.starts_with(kIf) || !branch.ends_with(':')) return std::nullopt;
  std::string_view condition = branch.substr(kIf.size(), branch.size() - kIf.size() - 1);
  const bool negated = condition.starts_with(kNot);
  if (negated) condition.remove_prefix(kNot.size());
  if (condition == "torch.cuda.is_available()") return !negated;  // there would be one device, and nothing to tell
  if (!frame) return std::nullopt;
  const std::vector<Path> mentioned = read_expression(api_, std::string(condition), true, "").mentioned;
  if (mentioned.size() != 1 || to_string(mentioned[0]) != condition) return std::nullopt;
  const Ref value = scope_.follow(mentioned[0], *frame).value;
  const std::string type = value ? class_of(api_, value.get()) : std::string();
  if (type != "bool" && type != "NoneType") return std::nullopt;
  return python::is_true(api_, value.get()) != negated;
}

std::optional<int> KnownNames::line_that_appends(const stacks::PythonFrame& code) const {
  const FunctionText* function = function_of(code.file, code.function, code.line);
  if (!function || function->module) return std::nullopt;
  const Lines& lines = source_.file(code.file);
  std::optional<int> found;
  for (const Path& path : read_expression(api_, source_.lines(code.file, code.line), false, "").mentioned) {
    if (!path.steps.empty()) continue;
    for (int line = function->first + 1; line <= std::min(function->last, static_cast<int>(lines.size())); ++line) {
      if (!trimmed(lines[line - 1]).starts_with(path.variable + ".append(")) continue;
      if (found || line >= code.line) return std::nullopt;
      found = line;
    }
  }
  return found;
}

std::optional<stacks::PythonFrame> KnownNames::line_that_names(size_t frame, const std::string& type) const {
  const Frame& here = frames_[frame];
  std::vector<std::string> found;
  scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
    if (class_of(api_, value) == type) found.push_back(name);
    const Ref attributes = name == "self" ? python::instance_dict(api_, value) : Ref();
    for (python::DictEntries each(api_, attributes.get()); attributes && each.next();)
      if (class_of(api_, each.value()) == type) found.push_back("self." + python::text(api_, each.key()));
  });
  if (found.size() != 1 || !source_.file) return std::nullopt;
  if (!found[0].starts_with("self.")) {
    const auto line = line_that_binds(frame, found[0]);
    return line ? std::optional(stacks::PythonFrame{here.file, here.function, *line}) : std::nullopt;
  }
  const Lines& lines = source_.file(here.file);
  std::optional<stacks::PythonFrame> only;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!trimmed(lines[i]).starts_with(found[0] + " = ")) continue;
    if (only) return std::nullopt;
    only = {here.file, "", static_cast<int>(i) + 1};
  }
  return only;
}

bool KnownNames::read_again(size_t frame, const std::string& variable) const {
  const Frame& here = frames_[frame];
  const FunctionText* function = function_of(here.file, here.function, here.region.line);
  const std::string_view line = trimmed(here.source);
  if (!function || line.starts_with("return ") || line.starts_with("raise ")) return false;
  const std::string root = variable.substr(0, variable.find('.'));
  const std::vector<int>& bound = function->bindings(variable);
  const bool own = function->module || !function->bindings(root).empty() || here.is_parameter(api_, root);
  if (!own || std::find(bound.begin(), bound.end(), here.source_line) != bound.end()) return false;
  const int end = here.source_line + static_cast<int>(std::count(here.source.begin(), here.source.end(), '\n'));
  return function->begins_statement(here.source_line) &&
         function->reads_below(std::max({here.region.line, here.region.end_line, end}), variable);
}

finding::List<finding::DeviceExpression> KnownNames::best_of(std::vector<Candidate> candidates) const {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  finding::List<finding::DeviceExpression> best;
  for (Candidate& each : candidates) {
    const bool known = std::any_of(best.begin(), best.end(),
                                   [&](const finding::DeviceExpression& other) { return other.device == each.device; });
    if (!known && numbered(each.device))
      best.push_back({std::move(each.expression), std::move(each.device), each.unnumbered});
  }
  return best;
}

void KnownNames::add_device(const std::string& expression, PyObject* value, int rank,
                            std::vector<Candidate>& out) const {
  const python::Shape shape = python::shape_of(api_, value);
  const bool one = shape == python::Shape::unicode || class_of(api_, value) == "device";
  if (one)
    for_each_named_device(api_, torch_, value, [&](const std::string& device) {
      const bool unnumbered = device == "cuda";
      out.push_back({rank, expression, unnumbered ? current_ : device, nullptr, unnumbered});
    });
}

// `self.device`, as far as the attribute's name says that it is one.
void KnownNames::add_kept_devices(const std::string& object, PyObject* value, int rank,
                                  std::vector<Candidate>& out) const {
  const Ref attributes = python::instance_dict(api_, value);
  for (python::DictEntries each(api_, attributes.get()); each.next();) {
    const std::string name = python::text(api_, each.key());
    if (speaks_of_a_device(name))
      add_device(object + "." + name, each.value(), rank, out);
    else if (class_of(api_, each.value()) == "device" ||
             python::text(api_, each.value()).starts_with("cuda:"))  // `self.last`
      add_device(object + "." + name, each.value(), std::max<int>(rank, kPart * 2 + kOfOtherVariables), out);
    if (torch_.is_module(each.value()) && !torch_.is_module(value))
      add_module({object + "." + name, Ref::borrowed(api_, each.value())}, out);
  }
}

void KnownNames::add_candidates(const Known& known, std::vector<Candidate>& out) const {
  PyObject* const value = known.value.get();
  const int later = known.parameter ? 0 : kOfOtherVariables;
  if (torch_.is_module(value)) return add_module(known, out);
  if (!torch_.is_tensor(value)) add_device(known.name, value, kDevice * 2 + later, out);
  add_optimizer(known, out);
  const bool self = known.parameter && known.name == "self";
  walk_.walk(value, known.name, 2, self, [&](const ReachedObject& reached) {
    if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
    const bool operand = std::find(operands_.begin(), operands_.end(), reached.object) != operands_.end();
    const int rank = operand ? kOperand : reached.object == value ? kTensor : kPart;
    out.push_back(
        {rank * 2 + later, reached.name + ".device", torch_.placement(reached.object).device, reached.object});
  });
  // `options.device` comes after `self.device`.
  const bool object = python::shape_of(api_, value) == python::Shape::other && !torch_.is_tensor(value) &&
                      !python::is_class(api_, value) && class_of(api_, value) != "module";
  if (object) add_kept_devices(known.name, value, kDevice * 2 + !self, out);
  add_settings(known.name, value, kDevice * 2 + kOfOtherVariables, 2, out);
}

// `config["device"]`, `config["model"]["device"]`.
void KnownNames::add_settings(const std::string& dict, PyObject* value, int rank, int depth,
                              std::vector<Candidate>& out) const {
  if (python::shape_of(api_, value) != python::Shape::dict) return;
  for (python::DictEntries each(api_, value); each.next();) {
    const std::string key = python::text(api_, each.key());
    if (key.empty() || key.find_first_of("\"\\\n") != key.npos) continue;
    const std::string expression = fmt::format("{}[\"{}\"]", dict, key);
    if (speaks_of_a_device(key)) add_device(expression, each.value(), rank, out);
    if (depth > 1) add_settings(expression, each.value(), rank, depth - 1, out);
  }
}

// The first parameter that an optimizer has, whatever it calls its model.
void KnownNames::add_optimizer(const Known& known, std::vector<Candidate>& out) const {
  const Ref attributes = python::instance_dict(api_, known.value.get());
  const Ref groups = attributes ? python::entry(api_, attributes.get(), "param_groups") : Ref();
  if (!groups || python::shape_of(api_, groups.get()) != python::Shape::list) return;
  python::Elements group(api_, groups.get(), 1);
  if (!group.next() || python::shape_of(api_, group.value()) != python::Shape::dict) return;
  const Ref parameters = python::entry(api_, group.value(), "params");
  if (!parameters || python::shape_of(api_, parameters.get()) != python::Shape::list) return;
  python::Elements first(api_, parameters.get(), 1);
  if (!first.next() || !torch_.is_tensor(first.value()) || torch_.is_opaque(first.value())) return;
  out.push_back({kSpread * 2 + kOfOtherVariables, known.name + ".param_groups[0][\"params\"][0].device",
                 torch_.placement(first.value()).device, first.value()});
}

void KnownNames::add_module(const Known& known, std::vector<Candidate>& out) const {
  PyObject* const module = known.value.get();
  const int later = known.parameter ? 0 : kOfOtherVariables;
  const bool self = known.parameter && known.name == "self";
  for_each_state_tensor(api_, torch_, module, [&](PyObject* tensor, const std::string& name, const char*) {
    if (self && !torch_.is_opaque(tensor) && is_dotted_name(name))
      out.push_back({kPart * 2, known.name + "." + name + ".device", torch_.placement(tensor).device, tensor});
    return true;
  });
  add_kept_devices(known.name, module, self ? kDevice * 2 : kSpread * 2 + later, out);
  PyObject* const first = first_parameter(module);
  const bool spread = holders_.devices_of(module).size() > 1;
  // Of a model on several devices it means where the first of its parameters is.
  if (first)
    out.push_back({(spread ? kSpread : kModule) * 2 + later, fmt::format("next({}.parameters()).device", known.name),
                   torch_.placement(first).device, first});
  if (spread) add_parts(known.name, module, kSpread * 2 + later, out);
}

PyObject* KnownNames::first_parameter(PyObject* module) const {
  PyObject* first = nullptr;
  const auto take = [&](PyObject* tensor, bool parameter) {
    if (!first && parameter) first = tensor;
    return !first;
  };
  for_each_state_tensor(api_, torch_, module, [&](PyObject* tensor, const std::string&, const char* role) {
    return take(tensor, role == std::string_view("parameter"));
  });
  if (!first)
    walk_.module_state(module, "", [&](const ReachedObject& reached, PyObject*) {
      return take(reached.object, reached.role == "parameter");
    });
  return first && !torch_.is_opaque(first) ? first : nullptr;
}

Ref KnownNames::child_table(PyObject* object) const {
  Ref children = module_table(api_, object, kChildTable);
  return children && python::shape_of(api_, children.get()) == python::Shape::dict ? std::move(children) : Ref();
}

// `next(model.decode.parameters()).device`, of a part that lies on one device.
void KnownNames::add_parts(const std::string& name, PyObject* module, int rank, std::vector<Candidate>& out) const {
  const Ref children = child_table(module);
  for (python::DictEntries each(api_, children.get()); each.next();) {
    const std::string part = python::text(api_, each.key());
    if (!torch_.is_module(each.value()) || !is_dotted_name(part) || holders_.devices_of(each.value()).size() != 1)
      continue;
    if (PyObject* const first = first_parameter(each.value()))
      out.push_back(
          {rank, fmt::format("next({}.{}.parameters()).device", name, part), torch_.placement(first).device, first});
  }
}

}  // namespace devtrace::evidence
