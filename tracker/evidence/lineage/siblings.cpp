#include "tracker/evidence/lineage/siblings.h"

#include <algorithm>
#include <utility>

#include "tracker/evidence/lineage/lineage.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/memory/provenance.h"

namespace devtrace::evidence {
namespace {

constexpr size_t kMost = 4;

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

// `kwargs["ids"]` of `kwargs["cos_sin"][0]`: has it the same beginning and one step more, where the other has more?
bool is_beside_container(std::string_view name, std::string_view within) {
  const size_t bracket = name.rfind('[');
  if (bracket == name.npos || bracket == 0 || !name.ends_with(']') || !within.starts_with(name.substr(0, bracket + 1)))
    return false;
  const size_t end = within.find(']', bracket);
  return end != within.npos && end + 1 < within.size() && within[end + 1] == '[';
}

}  // namespace

finding::Step left_within(const Torch& torch, const Operand& operand, const std::vector<Frame>& frames,
                          const Scope& scope, ObjectWalk& walk, const SourceText& source) {
  finding::Step found;
  if (operand.device != "cpu") return found;
  for (const finding::Name& name : operand.names) {
    if (!frames[name.frame].project || std::count(name.name.begin(), name.name.end(), '[') < 2) continue;
    scope.for_each_local(name.frame, [&](const std::string& variable, PyObject* value) {
      if (!name.name.starts_with(variable)) return;
      walk.walk(value, variable, 4, variable == "self", [&](const ReachedObject& reached) {
        if (!found.what.empty() || !torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
        if (!is_beside_container(reached.name, name.name)) return;
        const TensorFacts facts = torch.facts(reached.object);
        const auto block = facts.storage ? memory::provenance::block_at(facts.storage) : std::nullopt;
        if (facts.device == operand.device || !block || !block->moved_from.known()) return;
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
                                         const Scope& scope, ObjectWalk& walk, const KnownNames& names,
                                         const SourceText& source) {
  finding::List<finding::Operand> found;
  if (operand.has_role_of_state()) return found;
  const Way way = way_of(operand.storage, source);
  std::vector<PyObject*> seen;
  for (const Operand& each : operands) seen.push_back(each.object);
  for (const finding::Name& name : operand.names) {
    const Frame& frame = frames[name.frame];
    const FunctionText* function = names.function_of(frame.file, frame.function, frame.region.line);
    if (!frame.project || !function) continue;
    const auto visit = [&](const ReachedObject& reached, const char* role) {
      if (found.size() == kMost || !torch.is_tensor(reached.object) || torch.is_opaque(reached.object)) return;
      if (std::find(seen.begin(), seen.end(), reached.object) != seen.end()) return;
      Operand other;
      other.role = reached.role.empty() ? role : reached.role;
      if (other.has_role_of_state() || !function->computes_below(frame.region.line - 1, reached.name)) return;
      other.take(torch.facts(reached.object));
      // `x, y = next(batches)`: of memory that came from NumPy nothing else is known.
      const std::vector<int>& bound = function->bindings(reached.name);
      const bool together = bound.size() == 1 && bound == function->bindings(name.name);
      const bool alike = together || (!way.file.empty() && way == way_of(other.storage, source));
      if (other.device != operand.device || !alike) return;
      seen.push_back(reached.object);
      other.name = reached.name;
      other.names.push_back({name.frame, reached.name});
      add_provenance(other, other.device, other.storage, source);
      other.lineage = lineage(api, other, names, frames, source);
      found.push_back(std::move(other));
    };
    scope.for_each_local(name.frame, [&](const std::string& variable, PyObject* value) {
      const char* const role = frame.is_parameter(api, variable) ? "argument" : "variable";
      const auto reached = [&](const ReachedObject& each) { visit(each, role); };
      walk.walk(value, variable, 2, variable == "self", reached);
      if (variable == "self" && torch.is_module(value)) walk.module_attributes(value, variable, 2, reached);
    });
  }
  return found;
}

}  // namespace devtrace::evidence
