// A tensor on the meta device has a shape and no memory: there is nothing in it to copy, read or compute with.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> on_meta(const Evidence& evidence) {
  const auto is_there = [](const Operand& each) { return each.device == "meta"; };
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(), is_there);
  if (it == evidence.operands.end()) return std::nullopt;
  Cause cause{
      "no-memory-yet", it->is_state() ? Confidence::high : Confidence::medium,
      fmt::format("{} is on the meta device, where tensors have a shape and no values: it has to be given memory "
                  "(.to_empty(device=…)) and values (a state dict) first.",
                  it->name),
      std::nullopt};
  // Only a module has to_empty, and only of a parameter or buffer is it known that a module is moved.
  for (const Frame& frame : evidence.stack) {
    if (!frame.project || !it->is_state()) continue;
    if (auto code = to_empty(frame.source)) cause.fix = line_fix(frame, std::move(*code));
    break;
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
