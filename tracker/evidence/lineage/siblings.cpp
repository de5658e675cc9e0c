#include "tracker/evidence/lineage/siblings.h"

#include <algorithm>
#include <utility>

#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "tracker/evidence/lineage/lineage.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/memory/provenance.h"

namespace devtrace::evidence {
namespace {

constexpr size_t kMostSiblings = 4;

// The function of the user's that put the memory where it is, and whether it moved it there. Empty: not known.
struct Way {
  std::string file, function;
  bool moved = false;
  bool operator==(const Way&) const = default;
};

Way way_of(uintptr_t storage, const SourceText& source) {
  const auto block = storage ? memory::provenance::block_at(storage) : std::nullopt;
  if (!block) return {};
  const auto stack = stacks::resolve(block->allocated.stack);
  const auto line = innermost_project(stack, source);
  if (!line) return {};
  return {stack[*line].file, stack[*line].function, block->moved_from.known()};
}

// `kwargs["ids"]` of `kwargs["cos_sin"][0]` and of `kwargs["mask"]`: does what holds the other one, or something
// further out, hold this one as well, and tell them by their names?
bool is_beside(std::string_view name, std::string_view other) {
  const std::string_view holder = holder_of(name), step = name.substr(holder.size());
  const bool beside = !holder.empty() && name != other && other.starts_with(holder) && other.size() > holder.size() &&
                      !word_char(other[holder.size()]);
  const bool element = step.starts_with('[') && step[1] != '"';
  return beside && !(element && holder == holder_of(other));
}

// Its names, and what `x = batch.x` has given one of them.
std::vector<finding::Name> with_aliases(const Operand& operand, const std::vector<Frame>& frames) {
  std::vector<finding::Name> names = operand.names;
  for (const finding::Step& step : operand.lineage) {
    if (step.what != "assigned") continue;
    const std::string_view statement = step.line.source;
    const std::string value(trimmed(statement.substr(Scan(statement).value_begins)));
    const bool reference =
        std::all_of(value.begin(), value.end(), [](char c) { return word_char(c) || c == '.'; }) && !value.empty();
    for (size_t frame = 0; reference && frame < frames.size(); ++frame)
      if (frames[frame].file == step.line.file && frames[frame].function == step.line.function)
        names.push_back({frame, value});
  }
  return names;
}

// `["weight"]` of `sums["weight"]` where the frame also says `sums[name]`, and `[name]`: as its code has it.
struct Subscript {
  std::string key, variable;
};

Subscript subscript_of(const Operand& operand, size_t frame) {
  Subscript found;
  std::string_view container;
  for (const finding::Name& each : operand.names) {
    const std::string_view name = each.name, holder = holder_of(name), step = name.substr(holder.size());
    if (each.frame != frame || !step.starts_with('[') || (!container.empty() && holder != container)) continue;
    container = holder;
    (step[1] == '"' ? found.key : found.variable) = step;
  }
  return found;
}

// The module that keeps `self.a` as it keeps `self.b`, as an attribute, with the line of its constructor that does.
std::optional<finding::Chain> kept_beside(PyObject* module, std::string_view name, const std::string& other,
                                          const Holders& holders, const SourceText& source) {
  constexpr std::string_view kSelf = "self.";
  const auto is_own = [&](std::string_view each) {
    return each.starts_with(kSelf) && each.find_first_of(".[", kSelf.size()) == each.npos;
  };
  if (!is_own(name) || !is_own(other)) return std::nullopt;
  finding::Holder holder;
  holder.bound = holders.line_that_stores(module, other.substr(kSelf.size()));
  if (holder.bound.line <= 0) return std::nullopt;
  tell_source(holder.bound, source);
  holder.name = "self";
  holder.kind = "module";
  holder.holds = "attribute";
  finding::Chain chain;
  chain.name = other;
  chain.holders.push_back(std::move(holder));
  return chain;
}

}  // namespace

finding::Step left_within(const Torch& torch, const Operand& operand, const std::vector<Frame>& frames,
                          const Scope& scope, ObjectWalk& walk, const SourceText& source) {
  finding::Step found;
  if (operand.device != "cpu" || operand.moved.known()) return found;
  for (const finding::Name& name : with_aliases(operand, frames)) {
    if (!frames[name.frame].project || holder_of(name.name).empty()) continue;
    scope.for_each_local(name.frame, [&](const std::string& variable, PyObject* value) {
      // What a module has is moved, or not, as its state is.
      const bool self = variable == "self", deep = std::count(name.name.begin(), name.name.end(), '[') >= 2;
      const bool object = self || name.name.starts_with(variable + ".");
      if (!name.name.starts_with(variable) || (self ? !deep : torch.is_module(value))) return;
      walk.walk(value, variable, 4, object, [&](const ReachedObject& reached) {
        if (!found.what.empty() || !torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
        if (!is_beside(reached.name, name.name)) return;
        const TensorFacts facts = torch.facts(reached.object);
        const auto block = facts.storage ? memory::provenance::block_at(facts.storage) : std::nullopt;
        const bool left = block && block->moved_from.known() && facts.device != operand.device;
        if (!left) return;
        const auto stack = stacks::resolve(block->allocated.stack);
        const auto line = innermost_project(stack, source);
        if (!line) return;
        found.what = "left";
        found.line = python_stack({stack[*line]}, source)[0];
        found.line.around = {};
        found.call = reached.name;
      });
    });
  }
  return found;
}

finding::List<finding::Operand> siblings(const python::Api& api, const Torch& torch, const Operand& operand,
                                         const std::vector<Operand>& operands, const std::vector<Frame>& frames,
                                         const Scope& scope, ObjectWalk& walk, const Holders& holders,
                                         const KnownNames& names, const SourceText& source) {
  finding::List<finding::Operand> found;
  if (operand.has_role_of_state()) return found;
  const Way way = way_of(operand.storage, source);
  std::vector<PyObject*> seen;
  for (const Operand& each : operands) seen.push_back(each.object);
  for (const finding::Name& name : operand.names) {
    const Frame& frame = frames[name.frame];
    const FunctionText* function = names.function_of(frame.file, frame.function, frame.region.line);
    if (!frame.project || !function) continue;
    const Subscript subscript = subscript_of(operand, name.frame);
    const int last_line = std::max(frame.region.line, frame.region.end_line);
    const auto visit = [&](const ReachedObject& reached, const char* role, PyObject* module = nullptr) {
      if (found.size() == kMostSiblings || !torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
      if (std::find(seen.begin(), seen.end(), reached.object) != seen.end()) return;
      Operand other;
      other.role = reached.role.empty() ? role : reached.role;
      // What another dict has under the same key is read by the same variable, and was kept like it.
      std::string read = reached.name;
      if (!subscript.key.empty() && !subscript.variable.empty() && read.ends_with(subscript.key))
        read = read.substr(0, read.size() - subscript.key.size()) + subscript.variable;
      const auto is_computed_with = [&] {
        return function->computes_below(frame.region.line - 1, read) ||
               (module && names.computes_in_a_call(*function, frame.file, last_line, read));
      };
      if (other.has_role_of_state() || !is_computed_with()) return;
      other.take(torch.facts(reached.object));
      // `x, y = next(batches)`: of memory that came from NumPy nothing else is known.
      const std::vector<int>& bound = function->bindings(reached.name);
      const bool together = bound.size() == 1 && bound == function->bindings(name.name);
      Way theirs = way_of(other.storage, source);
      if (read != reached.name) theirs.moved = way.moved;
      const bool alike = together || (!way.file.empty() && way == theirs);
      if (other.device != operand.device) return;
      const auto kept = module ? kept_beside(module, name.name, read, holders, source) : std::nullopt;
      if (!alike && !kept) return;
      if (kept) other.held_by.push_back(*kept);
      seen.push_back(reached.object);
      other.name = read;
      other.names.push_back({name.frame, read});
      if (read != reached.name) other.names.push_back({name.frame, reached.name});
      add_provenance(other, other.device, other.storage, source);
      other.lineage = lineage(api, other, names, frames, source);
      found.push_back(std::move(other));
    };
    scope.for_each_local(name.frame, [&](const std::string& variable, PyObject* value) {
      const char* const role = frame.is_parameter(api, variable) ? "argument" : "variable";
      const auto reached = [&](const ReachedObject& each) { visit(each, role); };
      const bool object = variable == "self" || (name.name.starts_with(variable + ".") && !torch.is_module(value));
      walk.walk(value, variable, 2, object, reached);
      const auto attribute = [&](const ReachedObject& each) { visit(each, role, value); };
      if (variable == "self" && torch.is_module(value)) walk.module_attributes(value, variable, 2, attribute);
    });
  }
  return found;
}

}  // namespace devtrace::evidence
