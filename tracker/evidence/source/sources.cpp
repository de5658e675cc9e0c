#include "tracker/evidence/source/sources.h"

#include <algorithm>
#include <unordered_set>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/lineage/lines_behind.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/call_arguments.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {

using finding::DeviceSource;
using finding::Producer;
using memory::provenance::Block;
using python::Api;
using python::Ref;
using Devices = finding::List<std::string>;

namespace {

constexpr size_t kMostKept = 4;      // tensors told of what a function keeps
constexpr size_t kMostSources = 12;  // of all operands together
constexpr size_t kMostSourcesEach = 4;
constexpr size_t kDeepestSource = 3;
constexpr size_t kMostCalled = 6;     // methods that these call, and those of them
constexpr size_t kMostProducers = 3;  // that are asked for one operand

std::optional<Block> block_of(uintptr_t storage) {
  return storage ? memory::provenance::block_at(storage) : std::nullopt;
}

}  // namespace

bool Sources::is_operand(PyObject* tensor) const {
  return std::any_of(operands_.begin(), operands_.end(),
                     [&](const Operand& operand) { return operand.object == tensor; });
}

void Sources::note_producer(const Path& callee, Operand& operand, size_t frame) const {
  Path path = callee;
  Scope::Found found = scope_.follow(path, frame);
  if (!found.value && !path.steps.empty()) {
    path.steps.pop_back();
    found = scope_.follow(path, frame);
  }
  if (!found.value || torch_.is_tensor(found.value.get())) return;
  Holders keeper(api_, torch_, source_);
  keeper.add_root(found.value.get(), 0, "");
  keeper.explore();
  Producer producer{to_string(callee), keeper.kind_of(found.value.get()), {}, {}};
  if (torch_.is_module(found.value.get())) {
    // One that lies elsewhere gave something else on that line.
    const auto& devices = keeper.devices_of(found.value.get());
    if (std::find(devices.begin(), devices.end(), operand.device) != devices.end()) producer.devices = devices;
  }
  for (PyObject* tensor : keeper.tensors()) {
    if (producer.keeps.size() >= kMostKept || keeper.is_registered(tensor) || torch_.is_opaque(tensor)) continue;
    const TensorFacts facts = torch_.facts(tensor);
    const std::vector<Chain> chains = keeper.chains_to(tensor);
    if (facts.device != operand.device || chains.empty()) continue;
    finding::KeptTensor& kept = producer.keeps.emplace_back();
    kept.name = chains[0].name;
    kept.device = facts.device;
    kept.shape = finding::List<int64_t>::all(facts.shape);
    add_provenance(kept, kept.device, facts.storage, source_);
  }
  if (!producer.keeps.empty() || !producer.devices.empty()) operand.given_by = std::move(producer);
}

// `self.training_step(batch)`: the object that it belongs to, what it keeps, and where its modules lie.
void Sources::note_owner(const Path& method, Operand& operand, size_t frame) const {
  note_producer(method, operand, frame);
  if (operand.given_by.known()) {
    operand.given_by.kind = "owner";
    return;
  }
  Path path = method;
  path.steps.pop_back();
  const Scope::Found found = scope_.follow(path, frame);
  if (!found.value) return;
  Holders keeper(api_, torch_, source_);
  keeper.add_root(found.value.get(), 0, "");
  keeper.explore();
  Devices devices;
  devices = keeper.devices_of_state();
  if (std::find(devices.begin(), devices.end(), operand.device) != devices.end())
    operand.given_by = {to_string(method), "owner", std::move(devices), {}};
}

void Sources::add() {
  const size_t own = operands_.size();
  for (size_t i = 0; i < operands_.size() && operands_.size() < own + kMostSources; ++i) {
    if (depth_of(i) < kDeepestSource) add_of(i);
  }
}

void Sources::nest() {
  while (!operands_.empty() && operands_.back().source_of != Operand::kNone) {
    Operand source = std::move(operands_.back());
    operands_.pop_back();
    auto& sources = operands_[source.source_of].computed_from;
    sources.insert(sources.begin(), std::move(source));
  }
}

bool Sources::add_of_expressions() {
  const size_t own = operands_.size();
  for (size_t index = 0; index < own && operands_.size() < own + kMostSources; ++index) {
    const auto is_source = [&](const Operand& each) { return each.source_of == index; };
    if (operands_[index].source_of != Operand::kNone || operands_[index].has_role_of_state() ||
        std::any_of(operands_.begin(), operands_.end(), is_source))
      continue;
    const std::optional<Block> block = block_of(operands_[index].storage);
    if (!block || block->moved_from.known()) continue;
    const auto names = operands_[index].names;
    for (const finding::Name& each : names) {
      if (!frames_[each.frame].project || each.name.find('(') == std::string::npos) continue;
      const Expression read = read_expression(api_, each.name, true, "");
      if (!read.devices.empty()) break;
      // Another part of the line said that device.
      operands_[index].device_from = {};
      sources_in(read, each.frame, index, block->allocated.time);
      break;
    }
  }
  return operands_.size() > own;
}

size_t Sources::depth_of(size_t index) const {
  size_t depth = 0;
  for (; operands_[index].source_of != Operand::kNone; index = operands_[index].source_of) ++depth;
  return depth;
}

void Sources::add_of(size_t index) {
  const size_t before = operands_.size();
  add_by_line(index);
  if (operands_.size() == before) add_base(index);
}

// Of memory that nobody saw allocated, as NumPy's: another tensor of it that a function of the user's has.
void Sources::add_base(size_t index) {
  const Operand operand = operands_[index];
  if (!operand.object || operand.storage == 0 || operand.has_role_of_state() || !operand.expression.empty()) return;
  if (block_of(operand.storage)) return;
  const size_t before = operands_.size();
  for (size_t frame = 0; frame < frames_.size() && operands_.size() == before; ++frame) {
    if (!frames_[frame].project) continue;
    scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
      const char* const role = frames_[frame].is_parameter(api_, name) ? "argument" : "variable";
      reach_.walk(value, name, 3, name == "self", [&](const ReachedObject& reached) {
        if (operands_.size() > before || !torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object) ||
            is_operand(reached.object))
          return;
        Operand base;
        base.take(torch_.facts(reached.object));
        if (base.storage != operand.storage || base.device != operand.device) return;
        base.role = reached.role.empty() ? role : reached.role;
        base.names.push_back({frame, reached.name});
        base.source_of = index;
        operands_.push_back(std::move(base));
      });
    });
  }
}

void Sources::add_by_line(size_t index) {
  const Operand operand = operands_[index];
  if (operand.generator || operand.has_role_of_state()) return;
  if (!operand.object || !operand.expression.empty()) {
    const Frame& asking = frames_[asking_];
    const std::string& text = operand.expression.empty() ? asking.expression : operand.expression;
    const bool whole = operand.expression.empty() && !asking.exact;
    const Expression read = read_expression(api_, text, !whole, "");
    for (const Path& path : read.devices)
      if (operand.expression.empty() || note_device(path, {asking_, path}, index)) break;
    return sources_in(read, asking_, index, 0);
  }
  const std::optional<Block> block = block_of(operand.storage);
  if (!block) return;
  const std::vector<stacks::PythonFrame> made = stacks::resolve(block->allocated.stack);
  const std::optional<LiveLine> line = live_line(made, frames_);
  if (note_device_source(made, block->allocated.time, line, index) || block->moved_from.known()) return;
  const size_t before = operands_.size();
  if (line) {
    const std::string text = source_.lines(frames_[line->frame].file, line->line);
    sources_in(read_expression(api_, text, false, ""), line->frame, index, block->allocated.time);
  }
  const auto own = innermost_project(made, source_);
  if (own && operands_.size() == before) add_by_method(made[*own], index, block->allocated.time);
}

// `self.decay = self.rates.cumprod(0)` in a method that has returned: its object still has the one it was computed
// from. Variables that the method had are gone; the lines that gave them their values are read instead.
void Sources::add_by_method(const stacks::PythonFrame& made, size_t index, uint64_t time) {
  const auto place = place_of(made, std::nullopt, Path{"self", {}});
  if (!place) return;
  FunctionTexts texts(api_);
  const FunctionText* function = texts.at(made.file, source_.file(made.file), made.function, made.line);
  const std::vector<ReadLine> lines = lines_behind(api_, function, source_, made.file, made.line);
  Expression read;
  for (const ReadLine& line : lines)
    for (Path path : line.used) {
      if (path.variable != "self" || path.steps.empty()) continue;
      path.variable = place->path.variable;
      path.steps.insert(path.steps.begin(), place->path.steps.begin(), place->path.steps.end());
      read.used.push_back(std::move(path));
    }
  const size_t before = operands_.size();
  sources_in(read, place->frame, index, time);
  if (operands_.size() == before) note_device_of_methods(made, lines, index);
}

// `kernel = self.gaussian(n)`, where that method, or one that it calls so, says `device=self.device`.
void Sources::note_device_of_methods(const stacks::PythonFrame& made, const std::vector<ReadLine>& lines,
                                     size_t index) {
  constexpr std::string_view kSelf = "self.";
  const std::string& device = operands_[index].device;
  const Lines& all = source_.file(made.file);
  FunctionTexts texts(api_);
  std::string read;
  for (const ReadLine& line : lines) read += line.text + '\n';
  std::vector<std::string> called;
  for (size_t at = 0; (at = read.find(kSelf, at)) != read.npos && called.size() < kMostCalled;) {
    at += kSelf.size();
    size_t end = at;
    while (end < read.size() && word_char(read[end])) ++end;
    const std::string name = read.substr(at, end - at);
    const std::string head = fmt::format("def {}(", name);
    const auto line =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return trimmed(each).starts_with(head); });
    if (line == all.end() || std::find(called.begin(), called.end(), name) != called.end()) continue;
    called.push_back(name);
    if (const FunctionText* method = texts.at(made.file, all, name, static_cast<int>(line - all.begin()) + 1))
      read += method->text;
  }
  for (const char* const name : {"device", "_device"}) {
    const Path kept{"self", {{Step::attribute, name, 0}}};
    const bool said = read.find(fmt::format("device={}", to_string(kept))) != read.npos;
    const auto place = said ? place_of(made, std::nullopt, kept) : std::nullopt;
    const Scope::Found value = place ? scope_.follow(place->path, place->frame) : Scope::Found();
    const auto says = value.value ? said_by(value.value.get()) : std::nullopt;
    if (says && (*says == device || (*says == "cuda" && device.starts_with(*says))) && note_device(kept, *place, index))
      return;
  }
}

void Sources::sources_in(const Expression& read, size_t frame, size_t index, uint64_t time) {
  size_t found_here = 0, producers = 0;
  const Path* owner = nullptr;
  for (const Path& named : read.used) {
    Path path = named;
    Scope::Found found = scope_.follow(path, frame);
    for (; !found.value && !path.steps.empty(); found = scope_.follow(path, frame)) {
      if (asks_only(path.steps.back())) break;
      path.steps.pop_back();
    }
    if (!found.value) continue;
    PyObject* const value = found.value.get();
    // `self.sigma(t)`: a method is no attribute of the object that keeps what it looks at.
    const bool method = path.steps.size() + 1 == named.steps.size() && named.steps.back().kind == Step::attribute &&
                        !torch_.is_tensor(value) && python::instance_dict(api_, value);
    if (method && !torch_.is_module(value)) {
      if (!owner) owner = &named;
      continue;
    }
    if (torch_.is_module(value) || is_callable_with_state(value)) {
      const bool itself = path.variable == "self" && path.steps.empty();
      if (!itself && !operands_[index].given_by.known() && producers++ < kMostProducers)
        note_producer(path, operands_[index], frame);
      continue;
    }
    if (is_itself(value, operands_[index])) {
      if (path.steps.empty() && add_given(path.variable, frame, index, time)) ++found_here;
      continue;
    }
    reach_.walk(value, to_string(path), 3, false, [&](const ReachedObject& reached) {
      if (found_here < kMostSourcesEach && add_source(reached, found.role, frame, index, time)) ++found_here;
    });
  }
  if (owner && !operands_[index].given_by.known()) note_owner(*owner, operands_[index], frame);
}

// The operand, or what it is a view of, as the variable has it since.
bool Sources::is_itself(PyObject* value, const Operand& operand) const {
  if (value == operand.object) return true;
  if (!operand.expression.empty() || operand.storage == 0 || !torch_.is_tensor(value) || torch_.is_opaque(value))
    return false;
  return torch_.facts(value).storage == operand.storage;
}

bool Sources::is_callable_with_state(PyObject* value) const {
  const std::string kind = class_of(api_, value);
  return kind == "function" || kind == "method" || kind == "partial";
}

bool Sources::add_source(const ReachedObject& reached, const std::string& role, size_t frame, size_t index,
                         uint64_t time) {
  if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object) || is_operand(reached.object)) return false;
  Operand source;
  source.take(torch_.facts(reached.object));
  const Operand& operand = operands_[index];
  const bool view = source.storage == operand.storage && operand.storage != 0;
  // One number of the CPU's works with any device, but for what is a view of it, as `x.unsqueeze(0)`.
  const bool number = source.is_scalar_on_cpu() && !view && !operand.is_scalar_on_cpu();
  if (source.device != operand.device || number) return false;
  if (view && operand.expression.empty()) return false;
  // The variable may have been given another value since.
  const std::optional<Block> block = block_of(source.storage);
  if (block && time != 0 && block->allocated.time > time) return false;
  source.role = reached.role.empty() ? role : reached.role;
  source.names.push_back({frame, reached.name});
  source.source_of = index;
  operands_.push_back(std::move(source));
  return true;
}

// A parameter that has got another value since, `x = x - x.mean()`: what the call gave for it. That is known where a
// function that takes anything has handed it on, as PyTorch's modules do. Of a library's function that a line of the
// program's calls it is one of what that line names.
bool Sources::add_given(const std::string& parameter, size_t frame, size_t index, uint64_t time) {
  const size_t caller = frame + 1;
  if (caller >= frames_.size() || !frames_[frame].is_parameter(api_, parameter)) return false;
  const bool programs = frames_[caller].project && frames_[frame].project;
  if (programs && add_given_by_text(parameter, frame, index, time)) return true;
  if (frames_[caller].project && !frames_[caller].is_parameter(api_, "args")) {
    if (frames_[frame].project) return false;
    const size_t before = operands_.size();
    const std::string text = source_.lines(frames_[caller].file, frames_[caller].region.line);
    sources_in(read_expression(api_, text, false, ""), caller, index, time);
    return operands_.size() > before;
  }
  const std::vector<std::string> names = frames_[frame].positional(api_);
  const auto place = std::find(names.begin(), names.end(), parameter);
  if (place == names.end()) return false;
  const auto given = [&](long position) { return Path{"args", {{Step::index, "", position}}}; };
  // A bound method is given all but its object.
  const Scope::Found first = scope_.follow(given(0), caller), own = scope_.follow(Path{names[0], {}}, frame);
  const bool bound = names[0] == "self" && first.value.get() != own.value.get();
  const auto position = static_cast<long>(place - names.begin()) - (bound ? 1 : 0);
  if (position < 0) return false;
  for (const Path& path : {given(position), Path{"kwargs", {{Step::key, parameter, 0}}}}) {
    const Scope::Found found = scope_.follow(path, caller);
    if (!found.value) continue;
    return add_source({found.value.get(), to_string(path), {}}, "argument", caller, index, time);
  }
  return false;
}

// … where the program's own line calls the program's function: what its text gives for the parameter. Each new value of
// that was computed from the one before.
bool Sources::add_given_by_text(const std::string& parameter, size_t frame, size_t index, uint64_t time) {
  const Frame &called = frames_[frame], &calling = frames_[frame + 1];
  FunctionTexts texts(api_);
  const FunctionText* const function =
      texts.at(called.file, source_.file(called.file), called.function, called.region.line);
  if (!calling.exact || !function || !std::ranges::all_of(function->bindings(parameter), [&](int line) {
        return function->binds_from_itself(line, parameter);
      }))
    return false;
  const Expression read = read_expression(api_, calling.expression, true, calling.statement);
  const CallArguments arguments(api_, frames_, scope_, frame);
  for (const Operation& call : read.operations) {
    if (read.operations.size() > 1 || !call.callee || !arguments.called_as(call.callee->text)) return false;
    for (const Value& value : call.given) {
      if (!value.path || value.place.size() > 1 || arguments.parameter_of(value) != parameter) continue;
      const Scope::Found found = scope_.follow(*value.path, frame + 1);
      return found.value &&
             add_source({found.value.get(), to_string(*value.path), {}}, found.role, frame + 1, index, time);
    }
  }
  return false;
}

// What said the device where a tensor was made, or to which it was moved. False: it is not known.
bool Sources::note_device_source(const std::vector<stacks::PythonFrame>& made, uint64_t time,
                                 const std::optional<LiveLine>& line, size_t index) {
  const auto own = innermost_project(made, source_);
  if (!own) return false;
  const stacks::PythonFrame* const at = &made[*own];
  const std::string text = source_.lines(at->file, at->line);
  for (const Path& path : read_expression(api_, text, false, "").devices) {
    const std::optional<Place> place = place_of(*at, line, path);
    if (!place) continue;
    const size_t frame = place->frame;
    if (!path.steps.empty() && path.steps.back().name == "device" && !place->by_class) {
      Path owner = place->path;
      owner.steps.pop_back();
      const Scope::Found found = scope_.follow(owner, frame);
      if (found.value && torch_.is_tensor(found.value.get())) {
        add_source({found.value.get(), to_string(owner), found.role}, found.role, frame, index, time);
        return true;
      }
    }
    if (note_device(path, *place, index)) return true;
  }
  return false;
}

// What a line says in a variable, or in an attribute. True: in that one.
bool Sources::note_device(const Path& path, const Place& place, size_t index) {
  // `self.device`, and `self.kwargs["device"]`: the object has the dict.
  Path owner = place.path;
  while (!owner.steps.empty() && owner.steps.back().kind != Step::attribute) owner.steps.pop_back();
  if (!owner.steps.empty()) return note_holder_of_device(owner, place, to_string(path), index);
  note_device_of_variable(path, place.frame, index);
  return false;
}

// Where what that code calls `path` is now: in the frame where it still runs. Of a method that has returned: its
// object, where a running function has that as `self`, or as the only one of its class.
std::optional<Sources::Place> Sources::place_of(const stacks::PythonFrame& code, const std::optional<LiveLine>& line,
                                                const Path& path) const {
  if (line && frames_[line->frame].file == code.file && frames_[line->frame].function == code.function &&
      line->line == code.line)
    return Place{line->frame, path, false};
  const size_t dot = code.function.rfind('.');
  if (path.variable != "self" || dot == code.function.npos) return std::nullopt;
  const std::string owner = code.function.substr(0, dot), type = owner.substr(owner.rfind('.') + 1);
  for (size_t frame = 0; frame < frames_.size(); ++frame) {
    const Scope::Found self = scope_.follow(Path{"self", {}}, frame);
    if (self.value && is_of_class(api_, self.value.get(), type)) return Place{frame, path, false};
  }
  std::optional<Place> place = only_object(type);
  if (place) place->path.steps.insert(place->path.steps.end(), path.steps.begin(), path.steps.end());
  return place;
}

// The only object of that class, or of one derived from it, that variables of the user's functions hold, as attributes
// of attributes at most.
std::optional<Sources::Place> Sources::only_object(const std::string& type) const {
  constexpr int kDeepest = 2;
  constexpr size_t kMostObjects = 2000;
  std::optional<Place> found;
  PyObject* object = nullptr;
  bool several = false;
  std::unordered_set<PyObject*> seen;
  const auto look = [&](const auto& self, size_t frame, const Path& path, PyObject* value, int depth) -> void {
    if (several || seen.size() > kMostObjects || torch_.is_tensor(value) || !seen.insert(value).second) return;
    if (is_of_class(api_, value, type)) {
      several = object && object != value;
      if (!object) found = Place{frame, path, true};
      object = value;
    }
    if (depth == 0) return;
    const Ref attributes = python::instance_dict(api_, value);
    if (!attributes || python::is_class(api_, value) || class_of(api_, value) == "module") return;
    for (python::DictEntries each(api_, attributes.get()); each.next();) {
      Path next = path;
      next.steps.push_back({Step::attribute, python::text(api_, each.key()), 0});
      self(self, frame, next, each.value(), depth - 1);
    }
  };
  for (size_t frame = 0; frame < frames_.size(); ++frame)
    if (frames_[frame].project)
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        look(look, frame, Path{name, {}}, value, kDeepest);
      });
  return several ? std::nullopt : found;
}

// `attribute`: of the object that has the device, or the dict that does. `name`: as the code calls the device.
bool Sources::note_holder_of_device(const Path& attribute, const Place& place, std::string name, size_t index) {
  Path owner = attribute;
  owner.steps.pop_back();
  const Scope::Found holder = scope_.follow(owner, place.frame), device = scope_.follow(place.path, place.frame);
  if (!holder.value || !device.value || torch_.is_tensor(holder.value.get())) return false;
  const std::optional<std::string> says = said_by(device.value.get());
  if (!says) return false;
  DeviceSource from;
  from.name = std::move(name);
  from.role = "attribute";
  from.says = *says;
  from.kind = holders_.kind_of(holder.value.get());
  from.type = class_of(api_, holder.value.get());
  if (torch_.is_module(holder.value.get())) from.devices = holders_.devices_of(holder.value.get());
  from.bound = holders_.line_that_stores(holder.value.get(), attribute.steps.back().name);
  if (from.bound.line > 0) {
    tell_source(from.bound, source_);
    from.otherwise = chosen_by_itself(from.bound);
  }
  operands_[index].device_from = std::move(from);
  return true;
}

// What a line of a constructor stores where it is given nothing: the default of the parameter that it names, else what
// a line puts in the place of None. Empty where it stores what it is given, come what may.
std::string Sources::chosen_by_itself(const finding::Frame& bound) const {
  FunctionTexts texts(api_);
  const int line = static_cast<int>(bound.line);
  const FunctionText* function = texts.at(bound.file, source_.file(bound.file), "__init__", line);
  if (!function) return {};
  const auto value_in_line = [&](int number) {
    const std::string text = source_.lines(bound.file, number);
    const size_t begin = Scan(text).value_begins;
    return std::string(trimmed(std::string_view(text).substr(begin)));
  };
  const std::string value = value_in_line(line);
  bool given = false;
  for (const Path& path : read_expression(api_, value, false, "").mentioned) {
    const auto& all = function->parameters;
    if (std::find(all.begin() + (function->method ? 1 : 0), all.end(), path.variable) == all.end()) continue;
    given = true;
    const auto otherwise = function->defaults.find(path.variable);
    if (otherwise == function->defaults.end() || !path.steps.empty()) continue;
    if (otherwise->second != "None") return otherwise->second;
    const std::vector<int>& replaced = function->bindings(path.variable);
    if (!replaced.empty() && replaced.back() < line) return value_in_line(replaced.back());
    return value == path.variable ? std::string() : value;
  }
  return given ? std::string() : value;
}

void Sources::note_device_of_variable(const Path& path, size_t frame, size_t index) {
  const Scope::Found device = scope_.follow(path, frame);
  const std::optional<std::string> says = device.value ? said_by(device.value.get()) : std::nullopt;
  if (says) operands_[index].device_from = DeviceSource{to_string(path), device.role, *says, {}, {}, {}, {}, {}};
}

// Nothing for what says no device; empty for a number, which is as much as "cuda:0".
std::optional<std::string> Sources::said_by(PyObject* value) const {
  const std::string kind = class_of(api_, value);
  if (kind == "int") return std::string();
  if (kind == "str") return python::text(api_, value);
  return kind == "device" ? std::optional(python::as_text(api_, value)) : std::nullopt;
}

}  // namespace devtrace::evidence
