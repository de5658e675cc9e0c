#include "tracker/evidence/operand_names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text.h"
#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/source/call_arguments.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr size_t kMostNamesAFrame = 4;
constexpr size_t kMostMentions = 8;        // a frame
constexpr size_t kMostComparisons = 2000;  // of tensors that may be aliases of an operand

class Names {
 public:
  Names(const OperandSearch& search, std::vector<Operand>& operands, finding::List<finding::Mention>& mentions)
      : api_(search.api),
        torch_(search.torch),
        frames_(search.frames),
        query_(search.query),
        source_(search.source),
        texts_(search.api),
        scope_(search.scope),
        reach_(search.walk),
        holders_(search.holders),
        operands_(operands),
        mentions_(mentions) {}

  void run(bool direct) {
    if (any_object(operands_)) name_everywhere();
    if (direct) name_by_calls();
    for (Operand& operand : operands_) settle_name(operand);
  }

 private:
  // The same memory seen as the same shape is the same tensor to a reader: `.data`, `.detach()`, a parameter
  // re-wrapped.
  Operand* alias_of(PyObject* tensor) {
    if (Operand* operand = operand_of(operands_, tensor)) return operand;
    if (comparisons_ == 0 || torch_.is_opaque(tensor)) return nullptr;
    --comparisons_;
    const TensorFacts facts = torch_.facts(tensor);
    for (Operand& operand : operands_)
      if (operand.object && facts.address != 0 && facts.address == operand.data && facts.shape == operand.shape)
        return &operand;
    return nullptr;
  }

  void add_name(Operand& operand, size_t frame, const std::string& name) const {
    // A name that the line does not write is of no use there.
    if (frame == query_.asking && operand.expression.find(name) == std::string::npos && !operand.expression.empty())
      return;
    size_t in_frame = 0;
    for (const finding::Name& known : operand.names) {
      if (known.frame == frame && known.name == name) return;
      in_frame += known.frame == frame;
    }
    if (in_frame < kMostNamesAFrame) operand.names.push_back({frame, name});
  }

  // A tensor in a frame's call that the operation was not given: it says a device there.
  void note_mention(size_t frame, const ReachedObject& reached) {
    if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
    const auto in_frame = [&](const finding::Mention& each) { return each.frame == frame; };
    if (std::count_if(mentions_.begin(), mentions_.end(), in_frame) >= static_cast<int>(kMostMentions)) return;
    const auto same = [&](const finding::Mention& each) { return each.frame == frame && each.name == reached.name; };
    if (std::any_of(mentions_.begin(), mentions_.end(), same)) return;
    const TensorFacts facts = torch_.facts(reached.object);
    if (facts.device == "meta" || (facts.device == "cpu" && facts.shape.empty())) return;
    mentions_.push_back({frame, reached.name, facts.device});
  }

  // As the frame's own call writes it: that name comes first, and may be a global variable.
  void name_in_call(size_t frame) {
    const Frame& here = frames_[frame];
    for (const Path& path : read_expression(api_, here.expression, here.exact, here.statement).mentioned) {
      const Scope::Found found = scope_.follow(path, frame);
      if (!found.value) continue;
      reach_.walk(found.value.get(), to_string(path), 3, false, [&](const ReachedObject& reached) {
        if (torch_.is_module(reached.object)) return;
        Operand* const operand = alias_of(reached.object);
        if (operand) add_name(*operand, frame, reached.name);
        if (!operand || operand->source_of != Operand::kNone) note_mention(frame, reached);
      });
    }
    if (here.source.size() <= here.expression.size()) return;
    for (const Path& path : read_expression(api_, std::string(trimmed(here.source)), false, "").mentioned)
      if (const Scope::Found found = scope_.follow(path, frame); found.value && !alias_of(found.value.get()))
        note_mention(frame, {found.value.get(), to_string(path), ""});
  }

  void name_everywhere() {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      if (frames_[frame].project) name_in_call(frame);
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        reach_.walk(value, name, 3, name == "self" || frames_[frame].project, [&](const ReachedObject& reached) {
          if (!torch_.is_module(reached.object)) return name_object(frame, reached);
          name_state(frame, reached.object, reached.name);
          if (reached.name == "self")
            reach_.module_attributes(reached.object, "self", 2,
                                     [&](const ReachedObject& each) { name_object(frame, each); });
        });
      });
    }
  }

  // What a library's function was given by an expression, `loss(model(x), batch["y"].long())`: the library has a name
  // for it, and who called has none.
  void name_by_calls() {
    const auto is_named = [&](const Operand& operand) {
      return operand.has_role_of_state() ||
             std::any_of(operand.names.begin(), operand.names.end(),
                         [&](const finding::Name& name) { return !names_nothing(name.frame); });
    };
    for (size_t frame = query_.asking + 1; frame < frames_.size(); ++frame) {
      if (!frames_[frame].exact || names_nothing(frame) || !names_nothing(frame - 1)) continue;
      if (std::all_of(operands_.begin(), operands_.end(), is_named)) return;
      name_by_call(frame, is_named);
    }
  }

  template <class IsNamed>
  void name_by_call(size_t frame, const IsNamed& is_named) {
    const Frame& here = frames_[frame];
    const Expression read = read_expression(api_, here.expression, true, here.statement);
    if (read.operations.size() != 1) return;
    const Operation& call = read.operations[0];
    const CallArguments arguments(api_, frames_, scope_, frame - 1);
    if (!arguments.called_as(call.callee ? call.callee->text : std::string())) return;
    const auto kept = [&](const Value& value) { return value.path ? scope_.follow(*value.path, frame).value : Ref(); };
    // What the text names must be where the text says, if the function's own does not put something else there.
    for (const Value& value : call.given)
      if (const Ref object = kept(value), given = arguments.at(value); object && given && object.get() != given.get())
        if (!gives_anew(frames_[frame - 1], arguments.parameter_of(value))) return;
    for (const Value& value : call.given) {
      const Ref given = value.number || value.text.empty() ? Ref() : arguments.at(value);
      if (!given) continue;
      const std::string text = value.path ? to_string(*value.path) : value.text;
      reach_.walk(given.get(), text, 3, false, [&](const ReachedObject& reached) {
        Operand* const operand = torch_.is_tensor(reached.object) ? memory_of(reached.object) : nullptr;
        if (operand && !is_named(*operand)) operand->names.push_back({frame, reached.name});
      });
    }
  }

  // `input = F.pad(input, …)`
  bool gives_anew(const Frame& called, const std::string& parameter) {
    const FunctionText* const function =
        texts_.at(called.file, source_.file(called.file), called.function, called.region.line);
    return function && !function->bindings(parameter).empty();
  }

  // The operand that is this tensor, or another view of its memory: what a function has made of its argument.
  Operand* memory_of(PyObject* tensor) {
    if (Operand* operand = alias_of(tensor)) return operand;
    if (torch_.is_opaque(tensor)) return nullptr;
    const TensorFacts facts = torch_.facts(tensor);
    const auto same = [&](const Operand& each) {
      return each.object && facts.storage != 0 && each.storage == facts.storage;
    };
    const auto found = std::find_if(operands_.begin(), operands_.end(), same);
    const bool only = found != operands_.end() && std::find_if(found + 1, operands_.end(), same) == operands_.end();
    return only ? &*found : nullptr;
  }

  void name_object(size_t frame, const ReachedObject& reached) {
    if (torch_.is_module(reached.object)) return;
    if (Operand* operand = alias_of(reached.object)) add_name(*operand, frame, reached.name);
  }

  // A module that torch.compile or torch.export has put around the program's: its paths are not the program's.
  bool wraps_the_programs(PyObject* module) const {
    const Ref where = python::attribute(api_, python::type_of(api_, module).get(), "__module__");
    const std::string name = where ? python::text(api_, where.get()) : std::string();
    return name.starts_with("torch._") || name.starts_with("torch.export.");
  }

  // Names the operands that are state of `module`. The outermost module wins: frames come innermost first, so the last
  // call decides.
  void name_state(size_t frame, PyObject* module, const std::string& name) {
    if (frames_[frame].torch && wraps_the_programs(module)) return;
    if (!seen_modules_.insert({frame, module}).second) return;
    size_t missing = operands_.size();
    reach_.module_state(module, "", [&](const ReachedObject& reached, PyObject* owner) {
      Operand* operand = operand_of(operands_, reached.object);
      if (!operand) return true;
      add_name(*operand, frame, name + "." + reached.name);
      operand->role = reached.role;
      if (reached.name.size() >= operand->module_path.size()) {
        operand->module_path = reached.name;
        operand->module_class = class_of(api_, owner);
        operand->root_class = class_of(api_, module);
        operand->hook = hook_of(api_, owner);
        operand->device_map = entry_of_device_map(api_, module, reached.name);
        operand->root_devices = holders_.devices_of(module);
      }
      return --missing != 0;
    });
  }

  // NumPy's Python stands between the program and the tensor that NumPy asks for its values.
  bool names_nothing(size_t frame) const {
    return frames_[frame].torch ||
           (!frames_[frame].project && frames_[frame].file.find("/numpy/") != std::string::npos);
  }

  // The name by which the code that asked for the operation calls it: the innermost frame outside torch's own Python
  // files.
  void settle_name(Operand& operand) const {
    std::stable_sort(operand.names.begin(), operand.names.end(),
                     [](const finding::Name& a, const finding::Name& b) { return a.frame < b.frame; });
    operand.name = operand.module_path;
    for (const finding::Name& name : operand.names) {
      if (!operand.name.empty()) break;
      if (!names_nothing(name.frame)) operand.name = name.name;
    }
    if (operand.name.empty() && !operand.names.empty()) operand.name = operand.names.front().name;
    if (operand.role.empty() || operand.role == "temporary")
      operand.role = operand.name.empty() ? "temporary" : "variable";
  }

  const Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const OperandQuery& query_;
  const SourceText& source_;
  FunctionTexts texts_;
  const Scope& scope_;
  ObjectWalk& reach_;
  Holders& holders_;
  std::vector<Operand>& operands_;
  finding::List<finding::Mention>& mentions_;
  std::set<std::pair<size_t, PyObject*>> seen_modules_;
  size_t comparisons_ = kMostComparisons;
};

}  // namespace

void name_operands(const OperandSearch& search, bool direct, std::vector<Operand>& operands,
                   finding::List<finding::Mention>& mentions) {
  Names(search, operands, mentions).run(direct);
}

}  // namespace devtrace::evidence
