// nn.DataParallel copies parameters and buffers to each replica's device, and nothing else.
#include <fmt/format.h>

#include "report/verdict/rules.h"

namespace devtrace::report::causes::rules {

std::optional<Cause> data_parallel(const Evidence& evidence) {
  if (!evidence.passes_through("/torch/nn/parallel/parallel_apply.py") &&
      !evidence.passes_through("/torch/nn/parallel/data_parallel.py")) {
    return std::nullopt;
  }
  const auto pair =
      evidence.pair([](const Operand& it) { return !it.is_state(); }, [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const bool attribute = pair.it->role == "attribute";
  return Cause{"data-parallel", attribute ? Confidence::high : Confidence::medium,
               fmt::format("{} meets {} in a replica of nn.DataParallel, which copies parameters and buffers to its "
                           "device and leaves other tensors where they are.",
                           with_place(*pair.it), with_place(*pair.other)),
               move_where_named(evidence, *pair.it, *pair.other)};
}

}  // namespace devtrace::report::causes::rules
