// A kernel of the program's own, or of a library that checks nothing, was given memory that is not on its device.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> unchecked_kernel(const Evidence& evidence) {
  if (evidence.kind != "remote-access" || evidence.current_device.empty()) return std::nullopt;
  const auto frame = innermost_project(evidence.stack);
  if (!frame) return std::nullopt;
  const auto elsewhere = [&](const Operand& it) { return it.mismatched && it.device != evidence.current_device; };
  const auto mismatched = std::find_if(evidence.operands.begin(), evidence.operands.end(), elsewhere);
  if (mismatched == evidence.operands.end() || mismatched->name_in(*frame).empty()) return std::nullopt;
  const auto here = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                 [&](const Operand& it) { return it.device == evidence.current_device; });
  // With several strangers it is not said which of the two sides should move.
  const bool alone = std::count_if(evidence.operands.begin(), evidence.operands.end(), elsewhere) == 1;
  Cause cause{"unguarded-kernel", Confidence::medium,
              fmt::format("{} is given to a kernel that runs on {}, and nothing between this line and the launch looks "
                          "where its memory is.",
                          with_place(*mismatched), evidence.current_device),
              std::nullopt};
  // Inside a model it may as well be the model's parts that lie apart, and what was put on the current device is there
  // for that. The other rules say so if they see it.
  const Event* placed = mismatched->placed();
  const bool current = placed && placed->line() && says_current_device(placed->line()->source);
  if (!evidence.caller_of_model() && !current) cause.confidence = Confidence::high;
  if (alone && here != evidence.operands.end())
    cause.fix = move_at(evidence, *frame, *mismatched, device_expression(evidence, *frame, *here));
  return cause;
}

}  // namespace devtrace::report::verdict::rules
