#include "tracker/evidence/lineage/lineage.h"

#include <algorithm>

#include "tracker/evidence/lineage/default_arguments.h"
#include "tracker/memory/provenance.h"

namespace devtrace::evidence {
namespace {

using Stack = std::vector<stacks::PythonFrame>;

bool is_variable(const std::string& name) {
  return name.find_first_of(".[(") == name.npos;
}

// The frame that called the class.
std::optional<size_t> constructor_call(const Stack& made, const std::string& type, const SourceText& source) {
  const std::string constructor = type + ".__init__";
  for (size_t frame = made.size(); frame-- > 0;)
    if (made[frame].function == constructor || made[frame].function.ends_with("." + constructor))
      return innermost_project(made, source, frame + 1);
  return std::nullopt;
}

}  // namespace

finding::List<finding::Step> lineage(const python::Api& api, const Operand& operand, const KnownNames& names,
                                     const std::vector<Frame>& frames, const SourceText& source) {
  finding::List<finding::Step> steps;
  const auto step = [&](const char* what, const stacks::PythonFrame& frame,
                        finding::List<finding::DeviceExpression> devices) -> finding::Step& {
    finding::Step& out = steps.emplace_back();
    out.what = what;
    out.line = python_stack({frame}, source)[0];
    out.line.around = {};
    out.devices = std::move(devices);
    return out;
  };
  const auto add = [&](const char* what, const Stack& stack, std::optional<size_t> frame) {
    if (frame && is_project_file(stack[*frame].file, source.standard_library))
      step(what, stack[*frame], names.devices_at(stack, *frame));
  };
  const auto block = operand.storage ? memory::provenance::block_at(operand.storage) : std::nullopt;
  if (block && !(block->existed && !block->moved_from.known())) {
    const bool moved = block->moved_from.known();
    const Stack made = stacks::resolve(moved ? block->created.stack : block->allocated.stack);
    const Stack last = moved ? stacks::resolve(block->allocated.stack) : made;
    const auto line = innermost_project(last, source);
    if (line && !operand.has_role_of_state())
      if (const auto call = left_to_default(api, last, *line, names, source)) {
        finding::Step& defaulted = step("defaulted", last[call->frame], names.devices_at(last, call->frame));
        defaulted.call = call->call;
        defaulted.parameter = call->parameter;
        defaulted.otherwise = call->otherwise;
      }
    add("made", made, innermost_project(made, source));
    // Of a model that lies on several devices the part is what could have been put elsewhere.
    const std::string& type = operand.root_devices.size() < 2 ? operand.root_class : operand.module_class;
    if (operand.has_role_of_state() && !type.empty()) add("constructed", made, constructor_call(made, type, source));
    if (moved) add("moved", last, line);
    const auto live = live_line(last, frames);
    if (live && line && !operand.has_role_of_state()) {
      const size_t returned = last.size() - (frames.size() - live->frame);
      if (returned > *line && live->line != frames[live->frame].region.line) add("returned", last, returned);
    }
  }
  for (const finding::Name& name : operand.names) {
    if (operand.has_role_of_state() || !frames[name.frame].project || !is_variable(name.name)) continue;
    const Frame& frame = frames[name.frame];
    const auto line = names.line_that_binds(name.frame, name.name);
    if (!line) continue;
    const bool known = std::any_of(steps.begin(), steps.end(), [&](const finding::Step& each) {
      return each.line.line == *line && each.line.file == frame.file;
    });
    if (!known) step("assigned", {frame.file, frame.function, *line}, names.devices_in(name.frame, *line));
  }
  return steps;
}

}  // namespace devtrace::evidence
