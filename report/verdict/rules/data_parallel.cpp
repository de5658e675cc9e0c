// nn.DataParallel copies parameters and buffers to each replica's device, and nothing else.
#include "report/base/format.h"
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
  // Each replica has another device: a line with its number repairs one of them.
  auto fix = move_where_named(evidence, *pair.it, *pair.other);
  if (fix && fix->code.find(fmt::format(".to(\"{}\")", pair.other->device)) != fix->code.npos) fix.reset();
  const Frame* made = pair.it->created.line();
  const bool stayed =
      !pair.it->moved.known || (made && pair.it->moved.line() && made->same_line(*pair.it->moved.line()));
  if (!fix && attribute && made && made->project && made->function.ends_with("__init__") && stayed)
    fix = register_buffer(*made);
  return Cause{"data-parallel", attribute ? Confidence::high : Confidence::medium,
               fmt::format("{} meets {} in a replica of nn.DataParallel, which copies parameters and buffers to its "
                           "device and leaves other tensors where they are.",
                           with_place(*pair.it), with_place(*pair.other)),
               std::move(fix)};
}

}  // namespace devtrace::report::causes::rules
