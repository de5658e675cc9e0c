#include "tracker/evidence/operand_surroundings.h"

#include <algorithm>
#include <set>

#include "tracker/evidence/named_devices.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kMostHeld = 16;        // operands whose holders are told
constexpr size_t kMostRegistered = 64;  // that are like an operand
constexpr size_t kMostModules = 16, kMostParts = 16;
constexpr size_t kMostComparisons = 2000;  // of registered tensors with an operand

class Surroundings {
 public:
  Surroundings(const OperandSearch& search, std::vector<Operand>& operands)
      : api_(search.api),
        torch_(search.torch),
        frames_(search.frames),
        query_(search.query),
        scope_(search.scope),
        stack_(search.stack),
        holders_(search.holders),
        operands_(operands) {}

  void run(bool direct, Operands& found) {
    if (any_object(operands_)) look_who_holds(found);
    if (!direct) return;
    note_modules(found.modules);
    note_named_devices(found.named_devices);
  }

 private:
  // Who holds each operand, over all frames; and which registered tensors are like an operand that is none.
  void look_who_holds(Operands& found) {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      const bool own = frames_[frame].project;
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (own || name == "self") holders_.add_root(value, frame, name);
      });
    }
    holders_.explore();
    found.state_devices = holders_.devices_of_state();
    for (size_t i = 0; i < operands_.size() && i < kMostHeld; ++i) {
      Operand& operand = operands_[i];
      if (!operand.is_object()) continue;
      operand.held_by = holders_.chains_to(operand.tensor.object);
      if (operand.role != "parameter" && operand.role != "buffer") note_registered(operand);
    }
  }

  void note_registered(Operand& operand) {
    const TensorFacts& wanted = operand.tensor;
    size_t left = kMostComparisons;
    for (PyObject* tensor : holders_.tensors()) {
      if (left-- == 0 || operand.registered.size() >= kMostRegistered) return;
      if (!holders_.is_registered(tensor) || torch_.is_opaque(tensor)) continue;
      TensorFacts facts = torch_.facts(tensor);
      if (facts.storage != 0 && facts.storage == wanted.storage && operand.view_of.empty())
        if (const std::vector<Chain> chains = holders_.chains_to(tensor); !chains.empty())
          operand.view_of = chains[0].name;
      if (facts.shape != wanted.shape || facts.dtype != wanted.dtype || facts.storage == wanted.storage) continue;
      const std::vector<Chain> chains = holders_.chains_to(tensor);
      if (!chains.empty()) operand.registered.push_back({chains[0].name, std::move(facts)});
    }
  }

  // By what the interpreter gave C code, or by the parameters of the function that raises and of the one that was
  // called.
  void note_named_devices(std::vector<std::string>& out) {
    const auto note = [&](const std::string& device) {
      if (std::find(out.begin(), out.end(), device) == out.end()) out.push_back(device);
    };
    const auto note_index = [&](PyObject* value) {
      if (const std::string device = device_of_index(api_, value); !device.empty()) note(device);
    };
    if (query_.asking == 0) {
      PyObject* only = nullptr;
      size_t count = 0;
      stack_.for_each([&](PyObject* value) {
        for_each_named_device(api_, torch_, value, note);
        only = value;
        ++count;
      });
      if (!query_.ordinals) return;
      if (count == 1) note_index(only);  // other numbers may be anything
      // What is called may have been told before: an opened file, a bound function.
      for (size_t frame = 0; frame < frames_.size(); ++frame) {
        scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
          if (frames_[frame].is_parameter(api_, name)) for_each_named_device(api_, torch_, value, note);
        });
        if (frames_[frame].project) return;
      }
      return;
    }
    for (const size_t frame : {query_.asking - 1, size_t{0}})
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (!frames_[frame].is_parameter(api_, name)) return;
        for_each_named_device(api_, torch_, value, note);
        if (const Ref map = torch_.is_module(value) ? device_map_of(api_, value) : Ref())
          for_each_mapped_device(api_, map.get(), note);
        if (name.find("device") == name.npos && name != "destination") return;
        note_index(value);
        for_each_mapped_device(api_, value, note);
      });
  }

  // The modules whose methods are running, innermost first.
  void note_modules(std::vector<RunningModule>& out) {
    std::set<PyObject*> seen;
    for (size_t frame = 0; frame < frames_.size() && out.size() < kMostModules; ++frame) {
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (name != "self" || !torch_.is_module(value) || !seen.insert(value).second) return;
        RunningModule running{frame, class_of(api_, value), holders_.devices_of(value), {}, hook_of(api_, value), {},
                              false};
        running.skip_keys = skipped_by_hook(api_, value);
        const Ref dict = python::instance_dict(api_, value);
        running.replica = python::is_true(api_, python::entry(api_, dict.get(), "_is_replica").get());
        if (running.devices.size() >= 2) note_parts(value, running);
        out.push_back(std::move(running));
      });
    }
  }

  void note_parts(PyObject* module, RunningModule& running) {
    const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
    for (python::DictEntries each(api_, children.get()); running.parts.size() < kMostParts && each.next();)
      if (torch_.is_module(each.value()))
        running.parts.push_back({python::text(api_, each.key()), holders_.devices_of(each.value())});
  }

  const Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const OperandQuery& query_;
  const Scope& scope_;
  const StackValues& stack_;
  Holders& holders_;
  std::vector<Operand>& operands_;
};

}  // namespace

void add_surroundings(const OperandSearch& search, bool direct, std::vector<Operand>& operands, Operands& found) {
  Surroundings(search, operands).run(direct, found);
}

}  // namespace devtrace::evidence
