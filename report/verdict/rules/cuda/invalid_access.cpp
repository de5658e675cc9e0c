// A kernel used memory that is nobody's: freed, never given out, or behind the end of a block.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> invalid_access(const Evidence& evidence) {
  if (evidence.kind != "invalid-access") return std::nullopt;
  const finding::KernelAccess& access = evidence.finding.of<finding::Launch>().launch.access;
  const auto mismatched = std::ranges::find_if(evidence.operands, &Operand::mismatched);
  if (mismatched == evidence.operands.end()) return std::nullopt;
  const std::string made = at(innermost_own(mismatched->created.native));
  return Cause{"invalid-access", Confidence::high,
               fmt::format("{} leads there{}: {}.", mismatched->name.empty() ? evidence.argument : mismatched->name,
                           made.empty() ? "" : fmt::format(" (allocated at {})", made), access.whose),
               std::nullopt};
}

}  // namespace devtrace::report::verdict::rules
