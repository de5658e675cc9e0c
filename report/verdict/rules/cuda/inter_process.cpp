// A tensor that came from another process by its handle (torch.multiprocessing): it lies where the sender had it, by
// the sender's numbering of the devices.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

bool came_by_a_handle(const Operand& operand) {
  return !operand.moved.known() &&
         std::any_of(operand.created.stack.begin(), operand.created.stack.end(), [](const Frame& frame) {
           return frame.file.ends_with("/torch/multiprocessing/reductions.py") &&
                  frame.function == "rebuild_cuda_tensor";
         });
}

}  // namespace

std::optional<Cause> inter_process(const Evidence& evidence) {
  const auto pair = evidence.pair(came_by_a_handle, [](const Operand& other) { return !came_by_a_handle(other); });
  if (!pair) return std::nullopt;
  return Cause{
      "inter-process", Confidence::high,
      fmt::format("{} was sent by another process and lies where that process had it: its handle opens {} here, "
                  "and it meets {}. Processes with different CUDA_VISIBLE_DEVICES number the devices "
                  "differently.",
                  pair.it->name, pair.it->device, with_place(*pair.other)),
      move_where_named(evidence, *pair.it, *pair.other)};
}

}  // namespace devtrace::report::verdict::rules
