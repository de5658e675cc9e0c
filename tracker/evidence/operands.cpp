#include "tracker/evidence/operands.h"

#include <algorithm>

#include "tracker/evidence/named_devices.h"
#include "tracker/evidence/objects/accelerate_hooks.h"
#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/source/call_arguments.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/evidence/source/sources.h"
#include "tracker/evidence/stack_values.h"

namespace devtrace::evidence {
namespace {

using evidence::TensorFacts;
using python::Api;
using python::Ref;

constexpr size_t kMostNamesAFrame = 4;
constexpr size_t kMostMentions = 8;     // a frame
constexpr size_t kMostHeld = 16;        // operands whose holders are told
constexpr size_t kMostRegistered = 64;  // that are like an operand
constexpr size_t kMostModules = 16, kMostParts = 16;
constexpr size_t kMostComparisons = 2000;  // of tensors that may be aliases of an operand
const std::vector<Frame> kNoFrames;

size_t distinct_devices(const std::vector<Operand>& operands) {
  std::set<std::string> devices;
  for (const Operand& operand : operands) devices.insert(operand.tensor.device);
  return devices.size();
}

class Collector {
 public:
  Collector(const Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames, const Wanted& wanted)
      : api_(api),
        torch_(torch),
        frames_(frames),
        wanted_(wanted),
        reach_{api, torch},
        scope_(api, frames, reach_),
        stack_(api, wanted.direct && wanted.asking == 0 ? frames : kNoFrames),
        holders_(api, torch),
        sources_(api, torch, frames, wanted, scope_, reach_, holders_, operands_) {}

  Operands run() {
    const bool direct = wanted_.direct && !frames_.empty();
    if (direct) {
      if (!wanted_.none) gather();
      if (wanted_.generator) add_generator();
    }
    mark_odd();
    add_unnamed();
    drop_bystanders();
    cut_to_most();
    if (direct && !wanted_.generator && !wanted_.none) sources_.add();
    if (std::any_of(operands_.begin(), operands_.end(), [](const Operand& each) { return each.is_object(); }))
      name_everywhere();
    if (direct) name_by_calls();
    for (Operand& operand : operands_) settle_name(operand);
    Operands found{{}, std::move(mentioned_), std::move(mentions_), {}, {}, {}};
    if (std::any_of(operands_.begin(), operands_.end(), [](const Operand& each) { return each.is_object(); }))
      look_who_holds(found);
    if (direct) note_modules(found.modules);
    if (direct) note_named_devices(found.named_devices);
    sources_.nest();
    found.list = std::move(operands_);
    return found;
  }

 private:
  void gather() {
    const bool named = from_variable();
    if (!named) from_expression();
    if (wanted_.asking == 0 || (named && !wanted_.devices_of_operands.empty())) return;
    if (distinct_devices(operands_) < 2) from_parameters(wanted_.asking - 1);
    if (operands_.empty()) from_parameters(0);
  }

  Operand* known(PyObject* tensor) {
    for (Operand& operand : operands_)
      if (operand.tensor.object == tensor) return &operand;
    return nullptr;
  }

  void add(const ReachedObject& reached, size_t frame) {
    if (!torch_.is_tensor(reached.object) || known(reached.object)) return;
    Operand operand;
    if (torch_.is_opaque(reached.object)) {
      operand.tensor.object = reached.object;
      if (wanted_.fake) operand.tensor.device = torch_.fake_device(reached.object);
      if (operand.tensor.device.empty()) hidden_ = true;
    } else {
      operand.tensor = torch_.facts(reached.object);
    }
    if (operand.tensor.device.empty() || (operand.tensor.device == "meta" && !wanted_.on_meta)) return;
    operand.role = reached.role;
    if (!reached.name.empty()) operand.names.push_back({frame, reached.name});
    operands_.push_back(std::move(operand));
  }

  Scope::Found follow(const Path& path) const { return scope_.follow(path, wanted_.asking); }

  // The variable of the raising function that holds the operand, where it is known which that is.
  bool from_variable() {
    if (wanted_.variable.empty()) return false;
    const Scope::Found found = scope_.follow(Path{wanted_.variable, {}});
    const Ref& value = found.value;
    if (!value) return false;
    reach_.walk(value.get(), wanted_.variable, 3, false, [&](const ReachedObject& reached) {
      add({reached.object, reached.name, reached.role.empty() ? "variable" : reached.role}, 0);
    });
    hidden_ = true;
    return !operands_.empty();
  }

  // What a function has been given, the one that was called or the one that raises: of that, the line that calls it may
  // name nothing. Of a module one tensor on each device says enough.
  void from_parameters(size_t called) {
    scope_.for_each_local(called, [&](const std::string& name, PyObject* value) {
      if (!frames_[called].is_parameter(api_, name)) return;
      reach_.walk(value, name, 3, false, [&](const ReachedObject& reached) {
        if (!torch_.is_module(reached.object))
          return add({reached.object, reached.name, reached.role.empty() ? "argument" : reached.role}, called);
        std::set<std::string> devices;
        reach_.module_state(reached.object, reached.name + ".", [&](const ReachedObject& state, PyObject*) {
          if (!torch_.is_opaque(state.object) && devices.insert(torch_.placement(state.object).device).second)
            add(state, called);
          return true;
        });
      });
    });
  }

  // The operation's own operands, as far as the text of the innermost frame says them for certain.
  void from_expression() {
    const Frame& frame = frames_[wanted_.asking];
    Expression read = read_expression(api_, frame.expression, frame.exact, frame.statement);
    note_mentioned(read.mentioned);
    hidden_ = !stack_.known();
    if (read.operations.empty() && read.mentioned.empty()) return stack_.known() ? from_stack() : from_all_locals();
    const Operation* operation = the_one(read.operations);
    if (!operation) return from_stack();
    const bool unsaid = operation->hidden || frame.cut;
    hidden_ = (unsaid && !stack_.known()) || (operation->callee && carries_tensors(*operation->callee));
    for (const Value& value : operation->given) take(value);
    if (operation->callee) from_partial(*operation->callee);
    from_stack();
  }

  // `self.scale(x)`, of functools.partial(torch.mul, weight): C code calls C code with what the partial holds.
  void from_partial(const Value& callee) {
    const Scope::Found found = callee.path ? follow(*callee.path) : Scope::Found();
    if (!found.value || holders_.kind_of(found.value.get()) != "partial") return;
    for (const char* part : {"args", "keywords"}) {
      const Ref held = python::attribute(api_, found.value.get(), part);
      if (!held) continue;
      reach_.walk(held.get(), to_string(*callee.path) + "." + part, 3, false,
                  [&](const ReachedObject& reached) { add(reached, wanted_.asking); });
    }
  }

  // What the interpreter gave the operation, and no place in the text leads to. If the text has as many values without
  // a place, they are these.
  void from_stack() {
    if (!stack_.known()) return;
    const size_t before = operands_.size();
    stack_.for_each([&](PyObject* value) {
      reach_.walk(value, "", 3, false, [&](const ReachedObject& reached) { add({reached.object, "", ""}, 0); });
    });
    const bool told = operands_.size() - before == results_.size();
    for (size_t i = 0; told && i < results_.size(); ++i) say_expression(operands_[before + i], results_[i]);
    results_.clear();
  }

  void say_expression(Operand& operand, const Value& value) {
    operand.expression = value.text;
    operand.role = "temporary";
    if (value.callee) sources_.note_giver(*value.callee, operand, wanted_.asking);
  }

  // Of several operations in a line, the one whose operands do mix devices.
  const Operation* the_one(const std::vector<Operation>& operations) {
    if (operations.size() == 1) return &operations[0];
    if (stack_.known()) return the_one_on_stack(operations);
    const Operation* found = nullptr;
    for (const Operation& operation : operations) {
      for (const Value& value : operation.given) take(value);
      drop_bystanders();
      const bool mixes = distinct_devices(operands_) >= 2;
      operands_.clear();
      results_.clear();
      if (mixes && found) return nullptr;
      if (mixes) found = &operation;
    }
    return found;
  }

  const Operation* the_one_on_stack(const std::vector<Operation>& operations) const {
    const auto agrees = [&](const Operation& each) {
      return stack_.agree(each, [&](const Path& path) { return follow(path).value; });
    };
    const auto found = std::find_if(operations.begin(), operations.end(), agrees);
    const bool only =
        found != operations.end() && std::find_if(found + 1, operations.end(), agrees) == operations.end();
    return only ? &*found : nullptr;
  }

  void take(const Value& value) {
    if (value.number) return;
    PyObject* const given = stack_.at(value.place);
    if (value.path) {
      if (const Scope::Found found = follow(*value.path); found.value && (!given || given == found.value.get())) {
        reach_.walk(found.value.get(), to_string(*value.path), 3, false, [&](const ReachedObject& reached) {
          add({reached.object, reached.name, reached.role.empty() ? found.role : reached.role}, wanted_.asking);
        });
        return;
      }
    }
    if (given) return take_unkept(given, value);
    if (stack_.known()) return results_.push_back(value);
    if (const std::string device = device_of(value); !device.empty())
      add_temporary(device, &value);
    else
      results_.push_back(value);
  }

  // The result of an expression: nothing but the interpreter's stack leads to it.
  void take_unkept(PyObject* object, const Value& value) {
    reach_.walk(object, value.text, 3, false, [&](const ReachedObject& reached) {
      const size_t before = operands_.size();
      add({reached.object, "", "temporary"}, wanted_.asking);
      if (operands_.size() == before) return;
      say_expression(operands_.back(), value);
      if (!value.text.empty()) operands_.back().expression = reached.name;
    });
  }

  // The device of the tensor that an expression gave, where its parts leave no doubt. A tensor without dimensions on
  // the CPU leaves some: its neighbour decides.
  std::string device_of(const Value& value) {
    if (value.path) {
      if (const Scope::Found found = follow(*value.path); found.value) {
        if (!torch_.is_tensor(found.value.get()) || torch_.is_opaque(found.value.get())) return {};
        const std::string kind = class_of(api_, found.value.get());
        if (kind != "Tensor" && kind != "Parameter") return {};  // a class of its own may do as it likes
        const TensorFacts facts = torch_.facts(found.value.get());
        return facts.shape.empty() || facts.device == "meta" ? std::string() : facts.device;
      }
    }
    std::string common;
    for (const Value& part : value.like) {
      if (part.number) continue;
      const std::string device = device_of(part);
      if (device.empty() || (!common.empty() && device != common)) return {};
      common = device;
    }
    return common;
  }

  // A function that is not a plain one: a tensor's bound method in a variable, a scripted module, a partial.
  bool carries_tensors(const Value& callee) {
    if (!callee.path) return false;  // a method of another expression's result, which was given itself
    const Path& path = *callee.path;
    Path receiver = path;
    if (!receiver.steps.empty()) {
      receiver.steps.pop_back();
      if (const Scope::Found found = follow(receiver); found.value && torch_.is_tensor(found.value.get())) return false;
    }
    const Scope::Found found = follow(path);
    if (!found.value || class_of(api_, found.value.get()) != "builtin_function_or_method") return true;
    const Ref self = python::attribute(api_, found.value.get(), "__self__");
    return self && torch_.is_tensor(self.get());
  }

  void note_mentioned(const std::vector<Path>& paths) {
    for (Path path : paths) {
      Scope::Found found = follow(path);
      for (; !found.value && !path.steps.empty(); found = follow(path)) path.steps.pop_back();
      if (!found.value) continue;
      reach_.walk(found.value.get(), "", 3, false, [&](const ReachedObject& reached) {
        if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
        const TensorFacts facts = torch_.facts(reached.object);
        if (facts.device != "meta" && !(facts.device == "cpu" && facts.shape.empty())) mentioned_.insert(facts.device);
      });
    }
  }

  // Where the source is not to be had: the tensors of the innermost frame, if there is but one on each of the devices
  // that the message names.
  void from_all_locals() {
    hidden_ = true;
    every_local();
    for (const Operand& operand : operands_)
      if (!operand.is_scalar_on_cpu()) mentioned_.insert(operand.tensor.device);
    if (operands_.size() < 2 || operands_.size() != distinct_devices(operands_) ||
        operands_.size() != wanted_.devices_named.size())
      operands_.clear();
  }

  void every_local() {
    const size_t frame = wanted_.asking;
    scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
      const std::string role = frames_[frame].is_parameter(api_, name) ? "argument" : "variable";
      reach_.walk(value, name, 3, name == "self", [&](const ReachedObject& reached) {
        if (torch_.is_module(reached.object) && reached.object == value && name == "self") {
          add_own_state(value);
          return;
        }
        const size_t before = operands_.size();
        add({reached.object, reached.name, reached.role.empty() ? role : reached.role}, frame);
        if (operands_.size() > before && !in_question(operands_.back())) operands_.pop_back();
      });
    });
  }

  void add_own_state(PyObject* module) {
    evidence::for_each_state_tensor(api_, torch_, module,
                                    [&](PyObject* tensor, const std::string& name, const char* role) {
                                      const size_t before = operands_.size();
                                      add({tensor, "self." + name, role}, wanted_.asking);
                                      if (operands_.size() > before && !in_question(operands_.back()))
                                        operands_.pop_back();
                                      return true;
                                    });
  }

  bool in_question(const Operand& operand) const {
    const auto& named = wanted_.devices_named;
    return named.size() < 2 || std::find(named.begin(), named.end(), operand.tensor.device) != named.end();
  }

  void mark_odd() {
    if (wanted_.odd_data == 0) return;
    for (Operand& operand : operands_) operand.odd = operand.tensor.address == wanted_.odd_data;
  }

  bool lies_on(const std::string& device) const {
    return std::any_of(operands_.begin(), operands_.end(),
                       [&](const Operand& operand) { return operand.tensor.device == device; });
  }

  // What PyTorch says about operands that no name leads to. Which expression gave one is said only where no other can
  // have.
  void add_unnamed() {
    add_unnamed_odd();
    if (operands_.empty() && hidden_ && !wanted_.all_named) return;  // nothing that the message alone does not say
    std::vector<std::string> missing;
    for (const std::string& device : wanted_.devices_of_operands)
      if (device != "cuda" && !lies_on(device)) missing.push_back(device);
    const bool certain = missing.size() == 1 && results_.size() == 1 && !hidden_;
    for (const std::string& device : missing) add_temporary(device, certain ? &results_[0] : nullptr);
  }

  void add_unnamed_odd() {
    const auto marked = [](const Operand& operand) { return operand.odd; };
    if (wanted_.odd_data == 0 || std::any_of(operands_.begin(), operands_.end(), marked)) return;
    // It may be any result on its device.
    const auto may_be = [&](const Operand& operand) {
      return !operand.is_object() && operand.tensor.device == wanted_.odd_device;
    };
    const auto makers = std::count_if(operands_.begin(), operands_.end(), may_be);
    if (makers == 1 && results_.empty() && !hidden_)
      return mark_odd(*std::find_if(operands_.begin(), operands_.end(), may_be));
    std::erase_if(operands_, may_be);
    const bool certain = makers == 0 && results_.size() == 1 && !hidden_;
    mark_odd(add_temporary(wanted_.odd_device, certain ? &results_[0] : nullptr));
    if (certain) results_.clear();
  }

  void mark_odd(Operand& temporary) const {
    temporary.odd = true;
    temporary.tensor.address = temporary.tensor.storage = wanted_.odd_data;
  }

  // `made`: the expression that gave it, where that is certain.
  Operand& add_temporary(const std::string& device, const Value* made) {
    Operand operand;
    operand.tensor.device = device;
    // Nothing else that an operation is given has no name in its text.
    if ((made && !made->text.empty()) || !hidden_) operand.role = "temporary";
    if (made) {
      operand.expression = made->text;
      if (made->callee) sources_.note_giver(*made->callee, operand, wanted_.asking);
    }
    return operands_.emplace_back(std::move(operand));
  }

  // Random numbers are drawn by torch's own code: which generator is said by the innermost line that names one.
  void add_generator() {
    operands_.clear();
    for (size_t frame = 0; frame < frames_.size() && operands_.empty(); ++frame) {
      const Frame& here = frames_[frame];
      for (const Path& path : read_expression(api_, here.expression, here.exact, here.statement).mentioned) {
        const Scope::Found found = scope_.follow(path, frame);
        if (!found.value || !torch_.is_generator(found.value.get())) continue;
        Operand operand;
        operand.generator = true;
        operand.tensor.device = torch_.device_of_generator(found.value.get());
        operand.role = found.role;
        operand.names.push_back({frame, to_string(path)});
        operands_.push_back(std::move(operand));
        break;
      }
    }
    stack_.for_each([&](PyObject* value) {
      if (!operands_.empty() || !torch_.is_generator(value)) return;
      Operand operand;
      operand.generator = true;
      operand.tensor.device = torch_.device_of_generator(value);
      operand.role = "temporary";
      operands_.push_back(std::move(operand));
    });
  }

  // The first of every device and the odd one say most.
  void cut_to_most() {
    if (operands_.size() <= kMostOperands) return;
    std::set<std::string> devices;
    std::stable_partition(operands_.begin(), operands_.end(), [&](const Operand& operand) {
      return devices.insert(operand.tensor.device).second || operand.odd;
    });
    operands_.resize(kMostOperands);
  }

  // A zero-dimensional CPU tensor is welcome among CUDA tensors: it is told only if nothing else explains the mix.
  void drop_bystanders() {
    std::vector<Operand> without;
    for (const Operand& operand : operands_)
      if (!operand.is_scalar_on_cpu() || operand.odd) without.push_back(operand);
    if (distinct_devices(without) >= 2) operands_ = std::move(without);
  }

  // The same memory seen as the same shape is the same tensor to a reader: `.data`, `.detach()`, a parameter
  // re-wrapped.
  Operand* alias_of(PyObject* tensor) {
    if (Operand* operand = known(tensor)) return operand;
    if (comparisons_ == 0 || torch_.is_opaque(tensor)) return nullptr;
    --comparisons_;
    const TensorFacts facts = torch_.facts(tensor);
    for (Operand& operand : operands_)
      if (operand.is_object() && facts.address != 0 && facts.address == operand.tensor.address &&
          facts.shape == operand.tensor.shape)
        return &operand;
    return nullptr;
  }

  void add_name(Operand& operand, size_t frame, const std::string& name) const {
    // A name that the line does not write is of no use there.
    if (frame == wanted_.asking && operand.expression.find(name) == std::string::npos && !operand.expression.empty())
      return;
    size_t in_frame = 0;
    for (const Name& known : operand.names) {
      if (known.frame == frame && known.name == name) return;
      in_frame += known.frame == frame;
    }
    if (in_frame < kMostNamesAFrame) operand.names.push_back({frame, name});
  }

  // A tensor in a frame's call that the operation was not given: it says a device there.
  void note_mention(size_t frame, const ReachedObject& reached) {
    if (!torch_.is_tensor(reached.object) || torch_.is_opaque(reached.object)) return;
    const auto in_frame = [&](const Mention& each) { return each.frame == frame; };
    if (std::count_if(mentions_.begin(), mentions_.end(), in_frame) >= static_cast<int>(kMostMentions)) return;
    const auto same = [&](const Mention& each) { return each.frame == frame && each.name == reached.name; };
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
  }

  void name_everywhere() {
    for (size_t frame = 0; frame < frames_.size(); ++frame) {
      if (frames_[frame].project) name_in_call(frame);
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        reach_.walk(value, name, 3, name == "self" || frames_[frame].project, [&](const ReachedObject& reached) {
          if (!torch_.is_module(reached.object)) return name_object(frame, reached);
          name_state(frame, reached.object, reached.name);
          if (reached.name == "self") name_attributes(frame, reached.object);
        });
      });
    }
  }

  // What a library's function was given by an expression, `loss(model(x), batch["y"].long())`: the library has a name
  // for it, and who called has none.
  void name_by_calls() {
    const auto told = [&](const Operand& operand) {
      return operand.is_state() || std::any_of(operand.names.begin(), operand.names.end(),
                                               [&](const Name& name) { return !names_nothing(name.frame); });
    };
    for (size_t frame = wanted_.asking + 1; frame < frames_.size(); ++frame) {
      if (!frames_[frame].exact || names_nothing(frame) || !names_nothing(frame - 1)) continue;
      if (std::all_of(operands_.begin(), operands_.end(), told)) return;
      name_by_call(frame, told);
    }
  }

  template <class Told>
  void name_by_call(size_t frame, const Told& told) {
    const Frame& here = frames_[frame];
    const Expression read = read_expression(api_, here.expression, true, here.statement);
    if (read.operations.size() != 1) return;
    const Operation& call = read.operations[0];
    const CallArguments arguments(api_, frames_, scope_, frame - 1);
    if (!arguments.called_as(call.callee ? call.callee->text : std::string())) return;
    const auto kept = [&](const Value& value) { return value.path ? scope_.follow(*value.path, frame).value : Ref(); };
    // What the text names must be where the text says, or the function has put something else there.
    for (const Value& value : call.given)
      if (const Ref object = kept(value), given = arguments.at(value); object && given && object.get() != given.get())
        return;
    for (const Value& value : call.given) {
      const Ref given = value.number || value.text.empty() ? Ref() : arguments.at(value);
      if (!given) continue;
      const std::string text = value.path ? to_string(*value.path) : value.text;
      reach_.walk(given.get(), text, 3, false, [&](const ReachedObject& reached) {
        Operand* const operand = torch_.is_tensor(reached.object) ? memory_of(reached.object) : nullptr;
        if (operand && !told(*operand)) operand->names.push_back({frame, reached.name});
      });
    }
  }

  // The operand that is this tensor, or another view of its memory: what a function has made of its argument.
  Operand* memory_of(PyObject* tensor) {
    if (Operand* operand = alias_of(tensor)) return operand;
    if (torch_.is_opaque(tensor)) return nullptr;
    const TensorFacts facts = torch_.facts(tensor);
    const auto same = [&](const Operand& each) {
      return each.is_object() && facts.storage != 0 && each.tensor.storage == facts.storage;
    };
    const auto found = std::find_if(operands_.begin(), operands_.end(), same);
    const bool only = found != operands_.end() && std::find_if(found + 1, operands_.end(), same) == operands_.end();
    return only ? &*found : nullptr;
  }

  void name_object(size_t frame, const ReachedObject& reached) {
    if (torch_.is_module(reached.object)) return;
    if (Operand* operand = alias_of(reached.object)) add_name(*operand, frame, reached.name);
  }

  // What the running method's module has without having registered it: `self.window`.
  void name_attributes(size_t frame, PyObject* module) {
    const Ref dict = python::instance_dict(api_, module);
    ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (dict && api_.PyDict_Next(dict.get(), &position, &key, &value)) {
      const std::string name = python::text(api_, key);
      const auto table = [&](const ModuleTable& each) { return name == each.name; };
      if (std::any_of(std::begin(kModuleTables), std::end(kModuleTables), table)) continue;
      reach_.walk(value, "self." + name, 2, false, [&](const ReachedObject& reached) { name_object(frame, reached); });
    }
  }

  // Names the operands that are state of `module`. The outermost module wins: frames come innermost first, so the last
  // call decides.
  void name_state(size_t frame, PyObject* module, const std::string& name) {
    if (!seen_modules_.insert({frame, module}).second) return;
    size_t missing = operands_.size();
    reach_.module_state(module, "", [&](const ReachedObject& reached, PyObject* owner) {
      Operand* operand = known(reached.object);
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
    if (wanted_.asking == 0) {
      PyObject* only = nullptr;
      size_t count = 0;
      stack_.for_each([&](PyObject* value) {
        for_each_named_device(api_, torch_, value, note);
        only = value;
        ++count;
      });
      if (!wanted_.ordinals) return;
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
    for (const size_t frame : {wanted_.asking - 1, size_t{0}})
      scope_.for_each_local(frame, [&](const std::string& name, PyObject* value) {
        if (!frames_[frame].is_parameter(api_, name)) return;
        for_each_named_device(api_, torch_, value, note);
        if (PyObject* const map = torch_.is_module(value) ? device_map_of(api_, value) : nullptr)
          for_each_mapped_device(api_, map, note);
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
        PyObject* replica = dict ? python::entry(api_, dict.get(), "_is_replica") : nullptr;
        running.replica = replica && python::is_true(api_, replica);
        if (running.devices.size() >= 2) note_parts(value, running);
        out.push_back(std::move(running));
      });
    }
  }

  void note_parts(PyObject* module, RunningModule& running) {
    const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
    ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (children && api_.PyDict_Next(children.get(), &position, &key, &value) && running.parts.size() < kMostParts)
      if (torch_.is_module(value)) running.parts.push_back({python::text(api_, key), holders_.devices_of(value)});
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
                     [](const Name& a, const Name& b) { return a.frame < b.frame; });
    operand.name = operand.module_path;
    for (const Name& name : operand.names) {
      if (!operand.name.empty()) break;
      if (!names_nothing(name.frame)) operand.name = name.name;
    }
    if (operand.name.empty() && !operand.names.empty()) operand.name = operand.names.front().name;
    if (operand.role.empty() || operand.role == "temporary")
      operand.role = operand.name.empty() ? "temporary" : "variable";
  }

  const Api& api_;
  const evidence::Torch& torch_;
  const std::vector<Frame>& frames_;
  const Wanted& wanted_;
  ObjectWalk reach_;
  Scope scope_;
  StackValues stack_;
  std::vector<Operand> operands_;
  std::vector<Value> results_;  // expressions whose values may be operands, on devices not known
  bool hidden_ = true;          // there may be operands that the text does not show
  std::set<std::string> mentioned_;
  std::vector<Mention> mentions_;
  Holders holders_;
  Sources sources_;
  std::set<std::pair<size_t, PyObject*>> seen_modules_;
  size_t comparisons_ = kMostComparisons;
};

}  // namespace

Operands operands(const Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                  const Wanted& wanted) {
  return Collector(api, torch, frames, wanted).run();
}

}  // namespace devtrace::evidence
