#include "tracker/evidence/operands.h"

#include <algorithm>
#include <set>

#include "tracker/evidence/reach.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;
using python::TensorFacts;

constexpr size_t kMostNamesAFrame = 4;
constexpr size_t kMostComparisons = 2000;  // of tensors that may be aliases of an operand

bool scalar_on_cpu(const Operand& operand) {
  return operand.tensor.device == "cpu" && operand.tensor.shape.empty();
}

size_t distinct_devices(const std::vector<Operand>& operands) {
  std::set<std::string> devices;
  for (const Operand& operand : operands) devices.insert(operand.tensor.device);
  return devices.size();
}

class Collector {
 public:
  Collector(const Api& api, const python::Torch& torch, const std::vector<Frame>& frames, const Wanted& wanted)
      : api_(api), torch_(torch), frames_(frames), wanted_(wanted), reach_{api, torch} {}

  std::vector<Operand> run() {
    if (frames_.empty()) return {};
    for (const Frame& frame : frames_) locals_.push_back(frame.locals(api_));
    if (wanted_.direct) {
      from_expression();
      if (distinct_devices(operands_) < 2) from_all_locals();
    }
    mark_odd();
    drop_bystanders();
    if (operands_.size() > kMostOperands) operands_.resize(kMostOperands);
    if (!operands_.empty()) name_everywhere();
    for (Operand& operand : operands_) settle_name(operand);
    return std::move(operands_);
  }

 private:
  Operand* known(PyObject* tensor) {
    for (Operand& operand : operands_)
      if (operand.tensor.object == tensor) return &operand;
    return nullptr;
  }

  void add(const Reached& reached, size_t frame) {
    if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object) || known(reached.object)) return;
    Operand operand;
    operand.tensor = torch_.facts(reached.object);
    if (operand.tensor.device.empty() || operand.tensor.device == "meta") return;
    operand.role = reached.role;
    operand.names.push_back({frame, reached.name});
    operands_.push_back(std::move(operand));
  }

  Ref variable(size_t frame, const std::string& name) const {
    if (locals_[frame])
      if (Ref value(api_, api_.PyMapping_GetItemString(locals_[frame].get(), name.c_str())); value) return value;
    const Ref globals = frames_[frame].globals(api_);
    return globals ? Ref::borrowed(api_, api_.PyDict_GetItemString(globals.get(), name.c_str())) : Ref();
  }

  // The tensors that the failing expression mentions.
  void from_expression() {
    for (Path path : paths_in(frames_[0].expression)) {
      Ref value = variable(0, path.variable);
      std::string role = frames_[0].is_parameter(api_, path.variable) ? "argument" : "variable";
      // `x.mT`: as far as it can be followed without running code, so that x is still seen.
      for (size_t i = 0; value && i < path.steps.size(); ++i) {
        auto [inner, inner_role] = reach_.step(value.get(), path.steps[i]);
        if (!inner) {
          path.steps.resize(i);
          break;
        }
        value = std::move(inner);
        role = inner_role;
      }
      if (!value) continue;
      const std::string written = to_string(path);
      reach_.walk(value.get(), written, 3, false, [&](const Reached& reached) {
        add({reached.object, reached.name, reached.role.empty() ? role : reached.role}, 0);
      });
    }
  }

  // Where the expression is unknown or says too little: every tensor of the innermost frame on one of the devices in
  // question.
  void from_all_locals() {
    for_each_local(0, [&](const std::string& name, PyObject* value) {
      const std::string role = frames_[0].is_parameter(api_, name) ? "argument" : "variable";
      reach_.walk(value, name, 3, name == "self", [&](const Reached& reached) {
        if (torch_.is_module(reached.object) && reached.object == value && name == "self") {
          add_own_state(value);
          return;
        }
        const size_t before = operands_.size();
        add({reached.object, reached.name, reached.role.empty() ? role : reached.role}, 0);
        if (operands_.size() > before && !in_question(operands_.back())) operands_.pop_back();
      });
    });
  }

  void add_own_state(PyObject* module) {
    constexpr std::pair<const char*, const char*> kTables[] = {{"_parameters", "parameter"}, {"_buffers", "buffer"}};
    for (const auto& [table, role] : kTables) {
      const Ref dict = python::module_table(api_, module, table);
      ssize_t position = 0;
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      while (dict && api_.PyDict_Next(dict.get(), &position, &key, &value)) {
        const size_t before = operands_.size();
        if (torch_.is_tensor(value)) add({value, "self." + python::text(api_, key), role}, 0);
        if (operands_.size() > before && !in_question(operands_.back())) operands_.pop_back();
      }
    }
  }

  bool in_question(const Operand& operand) const {
    const auto& named = wanted_.devices_named;
    return named.size() < 2 || std::find(named.begin(), named.end(), operand.tensor.device) != named.end();
  }

  void mark_odd() {
    if (wanted_.odd_data == 0) return;
    for (Operand& operand : operands_) operand.odd = operand.tensor.address == wanted_.odd_data;
  }

  // A zero-dimensional CPU tensor is welcome among CUDA tensors: it is told only if nothing else explains the mix.
  void drop_bystanders() {
    std::vector<Operand> without;
    for (const Operand& operand : operands_)
      if (!scalar_on_cpu(operand) || operand.odd) without.push_back(operand);
    if (distinct_devices(without) >= 2) operands_ = std::move(without);
  }

  template <class Visit>
  void for_each_local(size_t frame, const Visit& visit) const {
    const Ref items = locals_[frame] ? Ref(api_, api_.PyMapping_Items(locals_[frame].get())) : Ref();
    if (!items) return;
    for (ssize_t i = 0, n = api_.PyList_Size(items.get()); i < n; ++i) {
      PyObject* item = api_.PyList_GetItem(items.get(), i);
      const std::string name = python::text(api_, api_.PyTuple_GetItem(item, 0));
      if (!name.starts_with("__")) visit(name, api_.PyTuple_GetItem(item, 1));
    }
  }

  // The same memory seen as the same shape is the same tensor to a reader: `.data`, `.detach()`, a parameter
  // re-wrapped.
  Operand* alias_of(PyObject* tensor) {
    if (Operand* operand = known(tensor)) return operand;
    if (comparisons_ == 0 || torch_.is_opaque(tensor)) return nullptr;
    --comparisons_;
    const TensorFacts facts = torch_.facts(tensor);
    for (Operand& operand : operands_)
      if (facts.address != 0 && facts.address == operand.tensor.address && facts.shape == operand.tensor.shape)
        return &operand;
    return nullptr;
  }

  static void add_name(Operand& operand, size_t frame, const std::string& name) {
    size_t in_frame = 0;
    for (const Name& known : operand.names) {
      if (known.frame == frame && known.name == name) return;
      in_frame += known.frame == frame;
    }
    if (in_frame < kMostNamesAFrame) operand.names.push_back({frame, name});
  }

  void name_everywhere() {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      for_each_local(frame, [&](const std::string& name, PyObject* value) {
        reach_.walk(value, name, 3, name == "self" || frames_[frame].project, [&](const Reached& reached) {
          if (torch_.is_module(reached.object))
            name_state(frame, reached.object, reached.name);
          else if (Operand* operand = alias_of(reached.object))
            add_name(*operand, frame, reached.name);
        });
      });
    }
  }

  // Names the operands that are state of `module`. The outermost module wins: frames come innermost first, so the last
  // call decides.
  void name_state(size_t frame, PyObject* module, const std::string& name) {
    if (!seen_modules_.insert({frame, module}).second) return;
    size_t missing = operands_.size();
    reach_.module_state(module, "", [&](const Reached& reached, PyObject* owner) {
      Operand* operand = known(reached.object);
      if (!operand) return true;
      add_name(*operand, frame, name + "." + reached.name);
      operand->role = reached.role;
      if (reached.name.size() >= operand->module_path.size()) {
        operand->module_path = reached.name;
        operand->module_class = class_of(owner);
        operand->root_class = class_of(module);
        operand->hook = hook_of(owner);
      }
      return --missing != 0;
    });
  }

  std::string class_of(PyObject* object) const { return python::type_name(api_, python::type_of(api_, object).get()); }

  std::string hook_of(PyObject* module) const {
    const Ref dict = python::instance_dict(api_, module);
    PyObject* hook = dict ? api_.PyDict_GetItemString(dict.get(), "_hf_hook") : nullptr;
    if (!hook) return {};
    std::string text = class_of(hook);
    const Ref state = python::instance_dict(api_, hook);
    PyObject* device = state ? api_.PyDict_GetItemString(state.get(), "execution_device") : nullptr;
    if (device) {
      const std::string kind = class_of(device);
      if (kind == "int" || kind == "str" || kind == "device")
        text += "(execution_device=" + python::as_text(api_, device) + ")";
    }
    return text;
  }

  // The name by which the code that asked for the operation calls it: the innermost frame outside torch's own Python
  // files.
  void settle_name(Operand& operand) const {
    std::stable_sort(operand.names.begin(), operand.names.end(),
                     [](const Name& a, const Name& b) { return a.frame < b.frame; });
    operand.name = operand.module_path;
    for (const Name& name : operand.names) {
      if (!operand.name.empty()) break;
      if (!frames_[name.frame].torch) operand.name = name.name;
    }
    if (operand.name.empty() && !operand.names.empty()) operand.name = operand.names.front().name;
  }

  const Api& api_;
  const python::Torch& torch_;
  const std::vector<Frame>& frames_;
  const Wanted& wanted_;
  Reach reach_;
  std::vector<Ref> locals_;
  std::vector<Operand> operands_;
  std::set<std::pair<size_t, PyObject*>> seen_modules_;
  size_t comparisons_ = kMostComparisons;
};

}  // namespace

std::vector<Operand> operands(const Api& api, const python::Torch& torch, const std::vector<Frame>& frames,
                              const Wanted& wanted) {
  return Collector(api, torch, frames, wanted).run();
}

}  // namespace devtrace::evidence
