// Two threads of a block access the same shared memory, one of them writes, and no barrier lies between them.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> shared_memory_race(const Evidence& evidence) {
  if (evidence.kind != "shared-memory-race") return std::nullopt;
  const finding::KernelAccess& access = evidence.finding.of<finding::Launch>().launch.access;
  return Cause{"missing-barrier", Confidence::high,
               fmt::format("{} is {} by one thread{}, and this is {}. Threads of a block run in any order up to a "
                           "barrier: put __syncthreads() between the two accesses, where all threads of the block come "
                           "by (within one warp __syncwarp() is enough).",
                           access.variable, access.writes ? "written" : "read",
                           access.line.line > 0 ? fmt::format(" at {}:{}", access.line.file, access.line.line) : "",
                           access.whose),
               std::nullopt};
}

}  // namespace devtrace::report::verdict::rules
