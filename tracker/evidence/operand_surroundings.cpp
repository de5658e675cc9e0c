#include "tracker/evidence/operand_surroundings.h"

#include <algorithm>
#include <set>

#include "tracker/base/options.h"
#include "tracker/evidence/named_devices.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/memory/provenance.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kMostHeld = 16;  // operands whose holders are told
constexpr size_t kMostModulesTold = 16, kMostParts = 16;
constexpr size_t kMostComparedState = 2000;  // of registered tensors with an operand

class Surroundings {
 public:
  Surroundings(const OperandSearch& search, std::vector<Operand>& operands)
      : api_(search.api),
        torch_(search.torch),
        frames_(search.frames),
        query_(search.query),
        source_(search.source),
        scope_(search.scope),
        stack_(search.stack),
        holders_(search.holders),
        operands_(operands) {}

  void run(bool direct, finding::Refusal& facts, std::vector<std::string>& named_devices) {
    if (any_object(operands_)) facts.state_devices = look_who_holds();
    if (!direct) return;
    note_modules(facts.modules);
    note_named_devices(named_devices);
  }

 private:
  // Who holds each operand, over all frames; and which registered tensors are like an operand that is none.
  std::vector<std::string> look_who_holds() {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      const bool own = frames_[frame].project;
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (own || name == "self") holders_.add_root(value, frame, name);
      });
    }
    holders_.explore();
    for (size_t i = 0; i < operands_.size() && i < kMostHeld; ++i) {
      Operand& operand = operands_[i];
      if (!operand.object) continue;
      operand.held_by = holders_.chains_to(operand.object);
      for (Chain& chain : operand.held_by)
        for (Holder& holder : chain.holders) add_source(holder.bound);
      if (!operand.has_role_of_state()) note_registered(operand);
      if (PyObject* parameter = holders_.kept_for(operand.object)) note_kept_for(parameter, operand);
    }
    return holders_.devices_of_state();
  }

  void add_source(finding::Frame& bound) const { tell_source(bound, source_); }

  // Which registered tensor's memory it lies in; or which one was this very tensor until a module moved that away.
  void note_registered(Operand& operand) {
    const auto own = operand.storage ? memory::provenance::block_at(operand.storage) : std::nullopt;
    size_t left = kMostComparedState;
    for (PyObject* tensor : holders_.tensors()) {
      if (left-- == 0) return;
      if (!holders_.is_registered(tensor) || torch_.is_opaque(tensor)) continue;
      const TensorFacts facts = torch_.facts(tensor);
      const bool view = facts.storage == operand.storage;
      if (view && facts.storage != 0 && operand.view_of.empty()) operand.view_of = name_of(tensor);
      if (view || !own || !operand.moved_away.name.empty()) continue;
      if (facts.shape != operand.shape || facts.dtype != operand.dtype || !was_moved_from(*own, facts.storage))
        continue;
      if (std::string name = name_of(tensor); !name.empty()) operand.moved_away = {std::move(name), facts.device};
    }
  }

  void note_kept_for(PyObject* parameter, Operand& operand) {
    if (torch_.is_opaque(parameter)) return;
    const TensorFacts facts = torch_.facts(parameter);
    finding::KeptTensor& kept = operand.kept_for;
    kept.name = name_of(parameter);
    kept.device = facts.device;
    kept.shape = finding::List<int64_t>::all(facts.shape);
    add_provenance(kept, facts.device, facts.storage, source_);
  }

  // By the longest way to it; empty: none is known.
  std::string name_of(PyObject* tensor) {
    const std::vector<Chain> chains = holders_.chains_to(tensor);
    return chains.empty() ? std::string() : chains[0].name;
  }

  // Memory that was filled by a move remembers where the memory it came from was made.
  static bool was_moved_from(const memory::provenance::Block& own, uintptr_t storage) {
    if (own.moved_from.known() || own.allocated.stack == 0) return false;
    const auto block = memory::provenance::block_at(storage);
    return block && block->moved_from.known() && block->created.stack == own.allocated.stack &&
           block->created.time == own.allocated.time && block->created.thread == own.allocated.thread &&
           block->moved_from == own.allocated.device;
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
  void note_modules(finding::List<finding::RunningModule>& out) {
    std::set<PyObject*> seen;
    for (size_t frame = 0; frame < frames_.size() && out.size() < kMostModulesTold; ++frame) {
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (name != "self" || !torch_.is_module(value) || !seen.insert(value).second) return;
        finding::RunningModule& running = out.emplace_back();
        running.frame = frame;
        running.type = class_of(api_, value);
        running.devices = holders_.devices_of(value);
        running.hook = hook_of(api_, value);
        running.skip_keys = skipped_by_hook(api_, value);
        const Ref dict = python::instance_dict(api_, value);
        running.replica = python::is_true(api_, python::entry(api_, dict.get(), "_is_replica").get());
        if (running.devices.size() >= 2) note_parts(value, running);
      });
    }
  }

  void note_parts(PyObject* module, finding::RunningModule& running) {
    const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
    for (python::DictEntries each(api_, children.get()); running.parts.size() < kMostParts && each.next();)
      if (torch_.is_module(each.value()))
        running.parts.push_back(
            {python::text(api_, each.key()), finding::List<std::string>::all(holders_.devices_of(each.value()))});
  }

  const Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const OperandQuery& query_;
  const SourceText& source_;
  const Scope& scope_;
  const StackValues& stack_;
  Holders& holders_;
  std::vector<Operand>& operands_;
};

}  // namespace

void add_surroundings(const OperandSearch& search, bool direct, std::vector<Operand>& operands, finding::Refusal& facts,
                      std::vector<std::string>& named_devices) {
  Surroundings(search, operands).run(direct, facts, named_devices);
}

}  // namespace devtrace::evidence
