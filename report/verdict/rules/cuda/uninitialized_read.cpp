// A kernel read memory of a block that was allocated and that nothing has written since.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> uninitialized_read(const Evidence& evidence) {
  if (evidence.kind != "uninitialized-read") return std::nullopt;
  const auto read = std::ranges::find_if(evidence.operands, &Operand::mismatched);
  if (read == evidence.operands.end()) return std::nullopt;
  const std::string made = at(innermost_own(read->created.native));
  return Cause{
      "never-written", Confidence::high,
      fmt::format("{} is read before anything has written there{}: no copy, no memset, no kernel. Device memory "
                  "holds what was in it before; set it first (cudaMemset, a copy, or a kernel).",
                  read->name.empty() ? evidence.argument : read->name,
                  made.empty() ? "" : fmt::format(" (allocated at {})", made)),
      std::nullopt};
}

}  // namespace devtrace::report::verdict::rules
