// The policy says that the access is meant: there is nothing to repair, and why is told.
#include "common/access_note.h"
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> declared_access(const Evidence& evidence) {
  if (evidence.note.empty() || evidence.kind == "collective-stalled" || evidence.note.starts_with(kAccessNotKnown))
    return std::nullopt;
  return Cause{"declared-access", Confidence::high,
               fmt::format("This is meant: {}. What the kernel reads and writes there crosses the link between the "
                           "devices every time.",
                           evidence.note),
               std::nullopt};
}

}  // namespace devtrace::report::verdict::rules
