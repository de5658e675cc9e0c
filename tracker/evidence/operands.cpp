#include "tracker/evidence/operands.h"

#include <algorithm>

#include "common/format.h"
#include "tracker/evidence/lineage/called_functions.h"
#include "tracker/evidence/lineage/holder_kinds.h"
#include "tracker/evidence/lineage/lineage.h"
#include "tracker/evidence/lineage/siblings.h"
#include "tracker/evidence/lineage/tensors_around.h"
#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/operand_names.h"
#include "tracker/evidence/operand_surroundings.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/evidence/source/sources.h"
#include "tracker/evidence/stack_values.h"

namespace devtrace::evidence {
namespace {

using evidence::TensorFacts;
using python::Api;
using python::Ref;

const std::vector<Frame> kNoFrames;

size_t distinct_devices(const std::vector<Operand>& operands) {
  std::set<std::string> devices;
  for (const Operand& operand : operands) devices.insert(operand.device);
  return devices.size();
}

class Collector {
 public:
  Collector(const Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames, const OperandQuery& query,
            const SourceText& source)
      : api_(api),
        torch_(torch),
        frames_(frames),
        query_(query),
        source_(source),
        reach_{api, torch},
        scope_(api, frames, reach_),
        stack_(api, query.direct && query.asking == 0 ? frames : kNoFrames, query.raised),
        holders_(api, torch, source),
        sources_(api, torch, frames, query.asking, source, scope_, reach_, holders_, operands_) {}

  Operands run(finding::Refusal& facts) {
    const bool direct = query_.direct && query_.met.empty() && !frames_.empty();
    for (PyObject* operand : query_.met) add({operand, "", ""}, 0);
    if (direct) {
      if (!query_.none) gather();
      if (query_.generator()) add_generator();
    }
    mark_mismatched();
    add_unnamed();
    drop_bystanders();
    cut_to_most();
    if (direct && !query_.generator() && !query_.none) sources_.add();
    const OperandSearch search{api_, torch_, frames_, query_, source_, scope_, stack_, reach_, holders_};
    name_operands(search, direct, operands_, facts.mentions);
    // Names say what an expression gave, and what that was computed from has names, too.
    if (direct && !query_.generator() && !query_.none && sources_.add_of_expressions())
      name_operands(search, direct, operands_, facts.mentions);
    Operands found{{}, std::move(mentioned_), {}};
    add_surroundings(search, direct, operands_, facts, found.named_devices);
    std::vector<PyObject*> objects;
    for (const Operand& operand : operands_)
      if (operand.object && operand.source_of == Operand::kNone) objects.push_back(operand.object);
    const KnownNames names(api_, torch_, frames_, scope_, reach_, holders_, source_, std::move(objects));
    HolderKinds kinds(api_, torch_, scope_, source_);
    for (Operand& operand : operands_) {
      add_provenance(operand, operand.device, operand.storage, source_);
      operand.lineage = lineage(api_, operand, names, frames_, source_);
      for (finding::Name& name : operand.names) {
        if (!frames_[name.frame].project) continue;
        name.read_again = names.read_again(name.frame, name.name);
        if (!operand.has_role_of_state()) name.holder = kinds.of(name);
      }
    }
    if (direct) {
      note_expressions(names, facts);
      facts.tensors = tensors_around(api_, torch_, frames_, scope_, reach_, holders_);
      facts.named_devices = devices_around(api_, torch_, frames_, scope_);
      facts.called = called_functions(api_, torch_, frames_, scope_, reach_, holders_, names, source_);
      for (Operand& operand : operands_) {
        finding::Step left = left_within(torch_, operand, frames_, scope_, reach_, source_);
        if (!left.what.empty()) operand.lineage.push_back(std::move(left));
      }
      for (Operand& operand : operands_)
        operand.siblings =
            siblings(api_, torch_, operand, operands_, frames_, scope_, reach_, holders_, names, source_);
    }
    sources_.nest();
    found.list.assign(operands_.begin(), operands_.end());
    if (!query_.gradient_device.empty()) name_gradient(found.list);
    if (query_.generator()) add_drawn(found.list);
    return found;
  }

 private:
  // For the user's innermost frames.
  void note_expressions(const KnownNames& names, finding::Refusal& facts) const {
    constexpr size_t kMostFrames = 6;
    size_t told = 0;
    for (size_t frame = 0; frame < frames_.size() && told < kMostFrames; ++frame) {
      if (!frames_[frame].project) continue;
      ++told;
      for (finding::DeviceExpression& each : names.devices_in(frame)) {
        finding::FrameExpression& expression = facts.expressions.emplace_back();
        static_cast<finding::DeviceExpression&>(expression) = std::move(each);
        expression.frame = frame;
      }
    }
  }

  void gather() {
    const bool named = from_variable();
    if (!named) from_expression();
    if (query_.asking == 0 || (named && !query_.devices_of_operands.empty())) return;
    if (distinct_devices(operands_) < 2) from_parameters(query_.asking - 1);
    if (operands_.empty()) from_parameters(0);
  }

  void add(const ReachedObject& reached, size_t frame) {
    if (!torch_.is_tensor(reached.object) || operand_of(operands_, reached.object)) return;
    Operand operand;
    if (torch_.is_opaque(reached.object)) {
      TensorFacts hidden;
      hidden.object = reached.object;
      operand.take(hidden);
      if (query_.fake) operand.device = torch_.fake_device(reached.object);
      if (operand.device.empty()) hidden_ = true;
    } else {
      operand.take(torch_.facts(reached.object));
    }
    if (operand.device.empty() || (operand.device == "meta" && !query_.on_meta)) return;
    operand.role = reached.role;
    if (!reached.name.empty()) operand.names.push_back({frame, reached.name});
    operands_.push_back(std::move(operand));
  }

  Scope::Found follow(const Path& path) const { return scope_.follow(path, query_.asking); }

  // The variable of the raising function that holds the operand, where it is known which that is.
  bool from_variable() {
    if (query_.variable.empty()) return false;
    const Scope::Found found = scope_.follow(Path{query_.variable, {}});
    const Ref& value = found.value;
    if (!value) return false;
    reach_.walk(value.get(), query_.variable, 3, false, [&](const ReachedObject& reached) {
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
          if (const std::string device = placement(state.object); !device.empty() && devices.insert(device).second)
            add(state, called);
          return true;
        });
      });
    });
  }

  // Empty where it cannot be read. A compiler may have put fake tensors in the place of a module's state.
  std::string placement(PyObject* tensor) const {
    if (!torch_.is_opaque(tensor)) return torch_.placement(tensor).device;
    return query_.fake ? torch_.fake_device(tensor) : std::string();
  }

  // The operation's own operands, as far as the text of the innermost frame says them for certain.
  void from_expression() {
    const Frame& frame = frames_[query_.asking];
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
                  [&](const ReachedObject& reached) { add(reached, query_.asking); });
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
    if (value.callee) sources_.note_producer(*value.callee, operand, query_.asking);
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
    const Ref given = stack_.at(value.place);
    if (value.path) {
      if (const Scope::Found found = follow(*value.path); found.value && (!given || given.get() == found.value.get())) {
        reach_.walk(found.value.get(), to_string(*value.path), 3, false, [&](const ReachedObject& reached) {
          add({reached.object, reached.name, reached.role.empty() ? found.role : reached.role}, query_.asking);
        });
        return;
      }
    }
    if (given) return take_unkept(given.get(), value);
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
      add({reached.object, "", "temporary"}, query_.asking);
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
      if (!operand.is_scalar_on_cpu()) mentioned_.insert(operand.device);
    if (operands_.size() < 2 || operands_.size() != distinct_devices(operands_) ||
        operands_.size() != query_.devices_named.size())
      operands_.clear();
  }

  void every_local() {
    const size_t frame = query_.asking;
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
                                      add({tensor, "self." + name, role}, query_.asking);
                                      if (operands_.size() > before && !in_question(operands_.back()))
                                        operands_.pop_back();
                                      return true;
                                    });
  }

  bool in_question(const Operand& operand) const {
    const auto& named = query_.devices_named;
    return named.size() < 2 || std::find(named.begin(), named.end(), operand.device) != named.end();
  }

  void mark_mismatched() {
    if (query_.mismatched_data == 0) return;
    for (Operand& operand : operands_) operand.mismatched = operand.data == query_.mismatched_data;
  }

  bool lies_on(const std::string& device) const {
    return std::any_of(operands_.begin(), operands_.end(),
                       [&](const Operand& operand) { return operand.device == device; });
  }

  // What PyTorch says about operands that no name leads to. Which expression gave one is said only where no other can
  // have.
  void add_unnamed() {
    add_unnamed_mismatched();
    if (operands_.empty() && hidden_ && !query_.all_named) return;  // nothing that the message alone does not say
    std::vector<std::string> missing;
    for (const std::string& device : query_.devices_of_operands)
      if (device != "cuda" && !lies_on(device)) missing.push_back(device);
    // A compiler's check says where the other operand lies, too.
    const bool one_result = results_.size() == 1 && !hidden_;
    if (query_.fake && missing.empty() && one_result && !query_.other_device.empty() && !lies_on(query_.other_device))
      missing.push_back(query_.other_device);
    const bool certain = missing.size() == 1 && one_result;
    for (const std::string& device : missing) add_temporary(device, certain ? &results_[0] : nullptr);
  }

  void add_unnamed_mismatched() {
    const auto marked = [](const Operand& operand) { return operand.mismatched; };
    if (query_.mismatched_data == 0 || std::any_of(operands_.begin(), operands_.end(), marked)) return;
    // It may be any result on its device.
    const auto may_be = [&](const Operand& operand) {
      return !operand.object && operand.device == query_.mismatched_device;
    };
    const auto makers = std::count_if(operands_.begin(), operands_.end(), may_be);
    if (makers == 1 && results_.empty() && !hidden_)
      return mark_mismatched(*std::find_if(operands_.begin(), operands_.end(), may_be));
    std::erase_if(operands_, may_be);
    const bool certain = makers == 0 && results_.size() == 1 && !hidden_;
    mark_mismatched(add_temporary(query_.mismatched_device, certain ? &results_[0] : nullptr));
    if (certain) results_.clear();
  }

  void mark_mismatched(Operand& temporary) const {
    temporary.mismatched = true;
    temporary.data = temporary.storage = query_.mismatched_data;
    temporary.address = fmt::format("{:#x}", temporary.data);
  }

  // `made`: the expression that gave it, where that is certain.
  Operand& add_temporary(const std::string& device, const Value* made) {
    Operand operand;
    operand.device = device;
    // Nothing else that an operation is given has no name in its text.
    if ((made && !made->text.empty()) || !hidden_) operand.role = "temporary";
    if (made) {
      operand.expression = made->text;
      if (made->callee) sources_.note_producer(*made->callee, operand, query_.asking);
    }
    return operands_.emplace_back(std::move(operand));
  }

  // Random numbers are drawn by torch's own code: which generator is said by the innermost line that names one.
  // The gradient itself, of which nothing but the device is known.
  void name_gradient(finding::List<finding::Operand>& operands) const {
    const auto unnamed = [&](const finding::Operand& each) {
      return !each.shape.is_known() && each.device == query_.gradient_device;
    };
    auto found = std::find_if(operands.begin(), operands.end(), unnamed);
    if (found == operands.end()) found = operands.insert(operands.begin(), finding::Operand());
    found->device = query_.gradient_device;
    found->role = "temporary";
    found->expression = query_.gradient_expression;
    found->mismatched = true;
  }

  // What the generator's numbers were asked for: a tensor without a name.
  void add_drawn(finding::List<finding::Operand>& operands) const {
    finding::Operand& drawn = operands.emplace_back();
    drawn.role = "temporary";
    drawn.device = query_.drawn_on;
    if (frames_.empty() || !frames_[0].exact) return;
    const std::string& text = frames_[0].expression;
    if (text.size() <= 120 && text.find('\n') == text.npos) drawn.expression = text;
  }

  void add_generator() {
    operands_.clear();
    for (size_t frame = 0; frame < frames_.size() && operands_.empty(); ++frame) {
      const Frame& here = frames_[frame];
      for (const Path& path : read_expression(api_, here.expression, here.exact, here.statement).mentioned) {
        const Scope::Found found = scope_.follow(path, frame);
        if (!found.value || !torch_.is_generator(found.value.get())) continue;
        Operand operand;
        operand.generator = true;
        operand.device = torch_.device_of_generator(found.value.get());
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
      operand.device = torch_.device_of_generator(value);
      operand.role = "temporary";
      operands_.push_back(std::move(operand));
    });
  }

  // The first of every device and the mismatched one say most.
  void cut_to_most() {
    if (operands_.size() <= kMostOperands) return;
    std::set<std::string> devices;
    std::stable_partition(operands_.begin(), operands_.end(), [&](const Operand& operand) {
      return devices.insert(operand.device).second || operand.mismatched;
    });
    operands_.resize(kMostOperands);
  }

  // The lengths of a packed sequence, in PyTorch's own code: on the CPU, wherever its data lies.
  bool belongs_on_cpu(const Operand& operand) const {
    return operand.device == "cpu" && frames_[query_.asking].torch &&
           std::any_of(operand.names.begin(), operand.names.end(),
                       [](const finding::Name& each) { return each.name == "batch_sizes"; });
  }

  // A zero-dimensional CPU tensor is welcome among CUDA tensors: it is told only if nothing else explains the mix.
  void drop_bystanders() {
    std::vector<Operand> without;
    for (const Operand& operand : operands_)
      if (!(operand.is_scalar_on_cpu() || belongs_on_cpu(operand)) || operand.mismatched) without.push_back(operand);
    if (distinct_devices(without) >= 2) operands_ = std::move(without);
  }

  const Api& api_;
  const evidence::Torch& torch_;
  const std::vector<Frame>& frames_;
  const OperandQuery& query_;
  const SourceText& source_;
  ObjectWalk reach_;
  Scope scope_;
  StackValues stack_;
  std::vector<Operand> operands_;
  std::vector<Value> results_;  // expressions whose values may be operands, on devices not known
  bool hidden_ = true;          // there may be operands that the text does not show
  std::set<std::string> mentioned_;
  Holders holders_;
  Sources sources_;
};

}  // namespace

void Operand::take(const TensorFacts& facts) {
  object = facts.object;
  data = facts.address;
  storage = facts.storage;
  device = facts.device;
  dtype = facts.dtype;
  shape = finding::List<int64_t>::all(facts.shape);
  bytes = facts.bytes;
  if (data != 0) address = fmt::format("{:#x}", data);
  requires_grad = facts.requires_grad;
  is_parameter = facts.is_parameter;
}

Operands operands(const Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                  const OperandQuery& query, const SourceText& source, finding::Refusal& facts) {
  return Collector(api, torch, frames, query, source).run(facts);
}

}  // namespace devtrace::evidence
