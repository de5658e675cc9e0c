// A kernel was given memory of the host that its device cannot reach: a tensor that stayed on the CPU, or memory that
// is not PyTorch's.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> host_memory(const Evidence& evidence) {
  if (evidence.kind != "host-access" || evidence.current_device.empty()) return std::nullopt;
  const auto mismatched = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                       [](const Operand& it) { return it.mismatched && it.on_cpu(); });
  if (mismatched == evidence.operands.end()) return std::nullopt;
  // PyTorch told where its own memory was made, or a Python frame holds the tensor, and not its address alone.
  if (!mismatched->created.known() && (mismatched->names.empty() || !mismatched->dtype))
    return Cause{"host-memory", Confidence::high,
                 fmt::format("The kernel runs on {} and goes to memory by an address of the host's own, which is "
                             "neither pinned nor registered nor managed.",
                             evidence.current_device),
                 std::nullopt};
  const auto here = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                 [&](const Operand& it) { return it.device == evidence.current_device; });
  Cause cause{"cpu-tensor", Confidence::high,
              fmt::format("{} is given to a kernel that runs on {}, and nothing between this line and the launch looks "
                          "where its memory is.",
                          with_place(*mismatched), evidence.current_device),
              std::nullopt};
  if (here != evidence.operands.end()) cause.fix = move_where_named(evidence, *mismatched, *here);
  return cause;
}

}  // namespace devtrace::report::verdict::rules
