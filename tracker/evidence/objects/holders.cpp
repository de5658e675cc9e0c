#include "tracker/evidence/objects/holders.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/python_scan.h"
#include "common/text.h"
#include "tracker/evidence/objects/parts.h"
#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {
namespace {

using python::Ref;
using python::Shape;
using Devices = finding::List<std::string>;

constexpr size_t kMostObjects = 12000;  // a finding must stay milliseconds
constexpr ssize_t kMostElements = 256;  // of one list or tuple
constexpr ssize_t kMostMethods = 500;   // of one class
constexpr size_t kMostEdges = 8;        // that lead to one object
constexpr size_t kMostClimbs = 400;     // steps, for one tensor
constexpr int kDeepest = 24;
constexpr size_t kMostState = 4000;  // tensors of one module
constexpr size_t kMostModules = 8;   // of one object

// What a module's instance has besides its tables and its user's attributes. Hooks hold what is on its way.
bool is_machinery(std::string_view attribute) {
  return attribute.ends_with("_hooks") || attribute.starts_with("_forward_") || attribute.starts_with("_backward_") ||
         attribute == "_hf_hook" || attribute == "_old_forward" || attribute == "_former_parameters";
}

bool is_table(std::string_view attribute) {
  return attribute == kParameterTable.name || attribute == kBufferTable.name || attribute == kChildTable.name;
}

// A notebook's shell holds all variables of the user's, by names that nobody wrote.
bool is_of_shell(std::string_view module) {
  return module.starts_with("IPython.") || module.starts_with("ipykernel.") || module.starts_with("google.colab.");
}

bool is_state(std::string_view holds) {
  return holds == kParameterTable.role || holds == kBufferTable.role;
}

}  // namespace

Holders::Holders(const python::Api& api, const Torch& torch, const SourceText& source)
    : api_(api), torch_(torch), source_(source), entered_(api), budget_(kMostObjects) {
  const auto take = [&](Ref& type, const char* module, const char* name) {
    if (const Ref holder = python::imported_module(api, module)) type = python::attribute(api, holder.get(), name);
  };
  take(optimizer_, "torch.optim", "Optimizer");
  take(partial_, "functools", "partial");
  take(method_, "types", "MethodType");
  take(function_, "types", "FunctionType");
  Ref opcodes;
  take(opcodes, "opcode", "opmap");
  if (opcodes && python::shape_of(api, opcodes.get()) == Shape::dict) {
    store_attribute_ = python::integer(api, python::entry(api, opcodes.get(), "STORE_ATTR").get(), -1);
    extended_argument_ = python::integer(api, python::entry(api, opcodes.get(), "EXTENDED_ARG").get(), -1);
  }
}

std::string Holders::class_of(PyObject* object) const {
  return python::type_name(api_, python::type_of(api_, object).get());
}

std::string Holders::kind_of(PyObject* object) const {
  if (torch_.is_module(object)) return "module";
  const Ref type = python::type_of(api_, object);
  if (optimizer_ && api_.PyType_IsSubtype(type.get(), optimizer_.get())) return "optimizer";
  switch (python::shape_of(api_, object)) {
    case Shape::list:
      return "list";
    case Shape::tuple:
      return "tuple";
    case Shape::dict:
      return "dict";
    default:
      break;
  }
  if (type.get() == partial_.get()) return "partial";
  if (type.get() == method_.get()) return "method";
  return type.get() == function_.get() ? "function" : "object";
}

void Holders::add_root(PyObject* object, size_t frame, const std::string& name) {
  Node& node = nodes_[object];
  if (node.variables.empty() && node.held_by.empty()) queue_.push_back(object);
  node.variables.emplace_back(frame, name);
}

void Holders::reach(PyObject* object, int depth, Edge edge) {
  if (!object || budget_ == 0 || object == edge.holder) return;
  const bool tensor = torch_.is_tensor(object);
  if (!tensor && !worth_entering(object)) return;
  --budget_;
  const auto [entry, fresh] = nodes_.try_emplace(object);
  Node& node = entry->second;
  if (fresh) {
    node.depth = depth;
    queue_.push_back(object);
  }
  // What is registered comes first: it says most.
  const bool registered = is_state(edge.holds);
  if (node.held_by.size() < kMostEdges)
    node.held_by.insert(registered ? node.held_by.begin() : node.held_by.end(), std::move(edge));
}

bool Holders::worth_entering(PyObject* object) {
  return entered_.of(object, [&](PyObject* type) {
    if (holds_nothing(api_, type)) return false;
    if (is_of_shell(python::text(api_, python::attribute(api_, type, "__module__").get()))) return false;
    const std::string name = python::type_name(api_, type);
    return name != "dtype" && name != "device" && name != "Size" && name != "ndarray";
  });
}

void Holders::explore() {
  while (!queue_.empty() && budget_ > 0) {
    PyObject* object = queue_.front();
    queue_.pop_front();
    const int depth = nodes_[object].depth;
    if (torch_.is_tensor(object))
      tensors_.push_back(object);
    else if (depth < kDeepest && worth_entering(object))
      look_into(object, depth + 1);
  }
}

void Holders::look_into(PyObject* object, int depth) {
  const std::string kind = kind_of(object);
  if (kind == "module") return look_into_module(object, depth);
  if (kind == "function") return look_into_function(object, depth);
  if (kind == "partial") {
    reach(python::attribute(api_, object, "func").get(), depth, {object, "function", ".func"});
    reach(python::attribute(api_, object, "args").get(), depth, {object, "argument", ".args"});
    reach(python::attribute(api_, object, "keywords").get(), depth, {object, "argument", ".keywords"});
    return;
  }
  if (kind == "method") {
    reach(python::attribute(api_, object, "__self__").get(), depth, {object, "self", ".__self__"});
    return;
  }
  look_into_parts(object, depth);
}

void Holders::look_into_module(PyObject* module, int depth) {
  for (const ModuleTable& table : kModuleTables) {
    const Ref dict = module_table(api_, module, table);
    const bool child = std::string_view(table.name) == kChildTable.name;
    const char* holds = child ? "module" : table.role;
    for (python::DictEntries each(api_, dict.get()); each.next();)
      if (torch_.is_tensor(each.value()) || torch_.is_module(each.value()))
        reach(each.value(), depth, {module, holds, "." + python::text(api_, each.key())});
  }
  look_into_parts(module, depth);
}

void Holders::look_into_function(PyObject* function, int depth) {
  const Ref closure = python::attribute(api_, function, "__closure__");
  if (closure && python::shape_of(api_, closure.get()) == Shape::tuple) {
    const Ref code = python::attribute(api_, function, "__code__");
    const Ref names = code ? python::attribute(api_, code.get(), "co_freevars") : Ref();
    const ssize_t named =
        names && python::shape_of(api_, names.get()) == Shape::tuple ? api_.PyTuple_Size(names.get()) : 0;
    for (ssize_t i = 0, n = api_.PyTuple_Size(closure.get()); i < n && i < named; ++i) {
      const Ref value = python::attribute(api_, api_.PyTuple_GetItem(closure.get(), i), "cell_contents");
      reach(value.get(), depth,
            {function, "cell", ".<closure>." + python::text(api_, api_.PyTuple_GetItem(names.get(), i))});
    }
  }
  const Ref defaults = python::attribute(api_, function, "__defaults__");
  if (defaults && python::shape_of(api_, defaults.get()) == Shape::tuple)
    reach(defaults.get(), depth, {function, "default", ".__defaults__"});
  look_into_parts(function, depth);
}

// Elements, entries, or attributes; a module's tables were looked into before.
void Holders::look_into_parts(PyObject* holder, int depth) {
  const bool of_module = torch_.is_module(holder);
  parts_of(api_, holder, kMostElements, true, [&](const Part& part) {
    if (budget_ == 0) return;
    if (part.attribute && python::shape_of(api_, part.key) != Shape::unicode) return;
    if (of_module && part.attribute) {
      const std::string name = part.name(api_);
      if (is_table(name) || is_machinery(name)) return;
    }
    PyObject* key = !part.attribute && part.key && torch_.is_tensor(part.key) ? part.key : nullptr;
    reach(part.value, depth, {holder, part.attribute ? "attribute" : "element", part.step(api_), key});
  });
}

bool Holders::is_registered(PyObject* tensor) const {
  const auto found = nodes_.find(tensor);
  return found != nodes_.end() && std::any_of(found->second.held_by.begin(), found->second.held_by.end(),
                                              [](const Edge& edge) { return is_state(edge.holds); });
}

PyObject* Holders::kept_for(PyObject* object) const {
  const auto found = nodes_.find(object);
  if (found == nodes_.end()) return nullptr;
  for (const Edge& edge : found->second.held_by) {
    if (edge.key) return edge.key;
    const auto holder = nodes_.find(edge.holder);
    if (holder == nodes_.end()) continue;
    for (const Edge& outer : holder->second.held_by)
      if (outer.key) return outer.key;
  }
  return nullptr;
}

std::vector<std::string> Holders::devices_of_state() const {
  std::vector<std::string> devices;
  for (PyObject* tensor : tensors_) {
    if (!is_registered(tensor) || torch_.is_opaque(tensor)) continue;
    const std::string device = torch_.placement(tensor).device;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

const std::vector<std::string>& Holders::devices_of(PyObject* module) {
  const auto [entry, fresh] = devices_.try_emplace(module);
  if (!fresh) return entry->second;
  std::vector<std::string>& devices = entry->second;
  std::vector<PyObject*> rest{module};
  std::unordered_set<PyObject*> seen{module};
  size_t left = kMostState;
  while (!rest.empty() && left > 0) {
    PyObject* one = rest.back();
    rest.pop_back();
    for_each_state_tensor(api_, torch_, one, [&](PyObject* tensor, const std::string&, const char*) {
      if (--left == 0) return false;
      if (torch_.is_opaque(tensor)) return true;
      const std::string device = torch_.placement(tensor).device;
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
      return true;
    });
    const Ref children = module_table(api_, one, kChildTable);
    for (python::DictEntries each(api_, children.get()); each.next();)
      if (torch_.is_module(each.value()) && seen.insert(each.value()).second) rest.push_back(each.value());
  }
  if (left == 0) devices.clear();
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::vector<Chain> Holders::chains_to(PyObject* object) {
  std::vector<Chain> found;
  if (!nodes_.contains(object)) return found;
  std::vector<const Edge*> path;
  climbs_ = 0;
  on_path_ = {object};
  climb(object, path, found);
  // The one by which it is registered first: an optimizer and a module's own lists hold parameters, too.
  std::stable_sort(found.begin(), found.end(), [](const Chain& a, const Chain& b) {
    const bool first = is_state(a.holders.back().holds), second = is_state(b.holders.back().holds);
    return first != second ? first : a.holders.size() > b.holders.size();
  });
  if (found.size() > kMostChains) found.resize(kMostChains);
  return found;
}

// Upwards as far as there is somebody who holds it; whether any variable was come to.
bool Holders::climb(PyObject* object, std::vector<const Edge*>& path, std::vector<Chain>& found) {
  if (++climbs_ > kMostClimbs || found.size() >= 4 * kMostChains) return false;
  const Node& node = nodes_.at(object);
  bool further = false;
  for (const Edge& edge : node.held_by) {
    if (!on_path_.insert(edge.holder).second) continue;
    path.push_back(&edge);
    further = climb(edge.holder, path, found) || further;
    path.pop_back();
    on_path_.erase(edge.holder);
  }
  if (further) return true;
  if (node.variables.empty()) return false;
  if (!path.empty()) found.push_back(chain_of(object, path));
  return true;
}

// `path` leads from the tensor outwards to `root`.
Chain Holders::chain_of(PyObject* root, const std::vector<const Edge*>& path) {
  Chain chain;
  const auto& [frame, variable] = nodes_.at(root).variables.back();
  chain.frame = frame;
  std::string name = variable;
  for (size_t i = path.size(); i-- > 0;) {
    PyObject* object = path[i]->holder;
    Holder holder;
    holder.name = name;
    holder.kind = kind_of(object);
    holder.type = class_of(object);
    holder.holds = path[i]->holds;
    if (holder.kind == "module") {
      holder.devices = devices_of(object);
      const Ref dict = python::instance_dict(api_, object);
      holder.replica = python::is_true(api_, python::entry(api_, dict.get(), "_is_replica").get());
    } else if (holder.kind == "method") {
      const Ref function = python::attribute(api_, object, "__func__");
      if (function && python::type_of(api_, function.get()).get() == function_.get())
        holder.function = python::text(api_, python::attribute(api_, function.get(), "__name__").get());
    }
    holder.mixed = (holder.kind == "list" || holder.kind == "tuple" || holder.kind == "dict") && holds_others(object);
    if (holder.kind == "object") note_modules(object, holder);
    if (holder.holds == "attribute") {
      const std::string attribute = path[i]->step.substr(1);
      const bool module = i > 0 && torch_.is_module(path[i - 1]->holder);
      holder.bound = line_that_stores(object, attribute);
      if (module && holder.kind == "object" && holder.bound.line == 0)
        holder.bound = method_that_stores(object, attribute);
    }
    name += path[i]->step;
    chain.holders.push_back(std::move(holder));
  }
  chain.name = name;
  return chain;
}

bool Holders::holds_others(PyObject* container) const {
  bool others = false;
  parts_of(api_, container, kMostElements, true,
           [&](const Part& part) { others = others || (!part.attribute && !torch_.is_tensor(part.value)); });
  return others;
}

void Holders::note_modules(PyObject* object, Holder& holder) {
  const Ref attributes = python::instance_dict(api_, object);
  for (python::DictEntries each(api_, attributes.get()); holder.modules.size() < kMostModules && each.next();)
    if (torch_.is_module(each.value()))
      holder.modules.push_back({python::text(api_, each.key()), Devices::all(devices_of(each.value()))});
  if (holder.modules.size() < 2) holder.modules.clear();
}

// Does the statement give its target a module of PyTorch's: `self.layers = nn.Sequential(*self.layers)`?
static bool constructs_module(const std::string& statement) {
  std::string_view value = trimmed(std::string_view(statement).substr(Scan(statement).value_begins));
  for (const std::string_view name : {"torch.", "nn."})
    if (value.starts_with(name)) value.remove_prefix(name.size());
  return value.starts_with("Module") || value.starts_with("Sequential(");
}

// Takes a line in which a function's code stores the attribute as the only one; false: it is not. `list`: it has a list
// or a dict now, which no line has stored that constructs a module.
bool Holders::take_store(PyObject* function, const std::string& attribute, bool list, finding::Frame& only) const {
  if (!function || python::type_of(api_, function).get() != function_.get()) return true;
  const Ref code = python::attribute(api_, function, "__code__");
  std::vector<int> lines = code ? lines_that_bind(code.get(), attribute) : std::vector<int>();
  if (lines.empty()) return true;
  const std::string file = python::text(api_, python::attribute(api_, code.get(), "co_filename").get());
  if (list && lines.size() > 1)
    std::erase_if(lines, [&](int line) { return constructs_module(source_.lines(file, line)); });
  if (lines.size() != 1 || only.line > 0) return false;
  only.line = lines[0];
  only.file = file;
  only.function = python::text(api_, python::attribute(api_, code.get(), "co_name").get());
  return true;
}

template <class Visit>
bool Holders::each_class_dict(PyObject* object, const Visit& visit) const {
  const Ref type = python::type_of(api_, object);
  const Ref classes = python::bases_of(api_, type.get());
  for (ssize_t i = 0, n = classes ? api_.PyTuple_Size(classes.get()) : 0; i < n; ++i) {
    const Ref own = python::dict_of_class(api_, api_.PyTuple_GetItem(classes.get(), i));
    if (own && !visit(own.get())) return false;
  }
  return true;
}

finding::Frame Holders::line_that_stores(PyObject* object, const std::string& attribute) const {
  finding::Frame only;
  const Ref value = python::entry(api_, python::instance_dict(api_, object).get(), attribute.c_str());
  const std::string kind = value ? kind_of(value.get()) : std::string();
  const bool list = kind == "list" || kind == "dict";
  const bool one = each_class_dict(object, [&](PyObject* own) {
    return take_store(Ref(api_, api_.PyMapping_GetItemString(own, "__init__")).get(), attribute, list, only);
  });
  only.function.clear();
  return one ? only : finding::Frame();
}

finding::Frame Holders::method_that_stores(PyObject* object, const std::string& attribute) const {
  finding::Frame only;
  const bool one = each_class_dict(object, [&](PyObject* own) {
    const Ref methods(api_, api_.PyMapping_Items(own));
    if (!methods) return true;
    for (python::Elements each(api_, methods.get(), kMostMethods); each.next();)
      if (!take_store(api_.PyTuple_GetItem(each.value(), 1), attribute, false, only)) return false;
    return true;
  });
  return one && only.function != "__init__" ? only : finding::Frame();
}

// As far as they can be told.
std::vector<int> Holders::lines_that_bind(PyObject* code, const std::string& attribute) const {
  constexpr ssize_t kMostCode = 20000;
  const Ref names = python::attribute(api_, code, "co_names");
  long long wanted = -1;
  for (ssize_t i = 0, n = names ? api_.PyTuple_Size(names.get()) : 0; i < n; ++i)
    if (python::text(api_, api_.PyTuple_GetItem(names.get(), i)) == attribute) wanted = i;
  const Ref bytes = wanted < 0 || store_attribute_ < 0 ? Ref() : python::attribute(api_, code, "co_code");
  const ssize_t size = bytes ? api_.PySequence_Size(bytes.get()) : 0;
  if (size <= 0 || size > kMostCode) return {};
  const auto byte = [&](ssize_t at) {
    return python::integer(api_, Ref(api_, api_.PySequence_GetItem(bytes.get(), at)).get(), 0);
  };
  std::vector<ssize_t> stores;
  long long argument = 0;
  for (ssize_t at = 0; at + 1 < size; at += 2) {
    const long long opcode = byte(at);
    argument = (argument << 8) | byte(at + 1);
    if (opcode == store_attribute_ && argument == wanted) stores.push_back(at);
    if (opcode != extended_argument_) argument = 0;
  }
  std::vector<int> found;
  const Ref lines = stores.empty() ? Ref() : python::call_method(api_, code, "co_lines");  // 3.10 and later
  while (lines) {
    const Ref entry(api_, api_.PyIter_Next(lines.get()));
    if (!entry) break;
    const auto part = [&](ssize_t i) { return python::integer(api_, api_.PyTuple_GetItem(entry.get(), i), -1); };
    for (const ssize_t store : stores)
      if (part(0) <= store && store < part(1) && part(2) > 0) found.push_back(static_cast<int>(part(2)));
  }
  return found;
}

}  // namespace devtrace::evidence
