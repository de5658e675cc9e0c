// A kernel launched on the current device with memory of another one: the launching code set no device guard.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// The user's line in a guard of the device of something that it mentions.
std::optional<Fix> guard(const Evidence& evidence) {
  const auto index = innermost_project(evidence.stack);
  if (!index) return std::nullopt;
  const Frame& frame = evidence.stack[*index];
  const size_t indent = std::min(frame.source.find_first_not_of(' '), frame.source.size());
  const std::string_view statement = std::string_view(frame.source).substr(indent);
  // A block's head or a statement over several lines would need the lines behind it.
  if (statement.empty() || statement.ends_with(':') || statement.find('\n') != statement.npos)
    return repair_of(frame, {});
  for (const Operand& operand : evidence.operands) {
    const std::string_view name = operand.name_in(*index);
    if (name.empty() || !is_reference(name) || reads(statement, name) == 0) continue;
    return repair_of(frame, fmt::format("with torch.cuda.device({}.device):\n    {}", name, statement));
  }
  return repair_of(frame, {});
}

}  // namespace

std::optional<Cause> unguarded_kernel(const Evidence& evidence) {
  if (evidence.kind != "wrong-current-device" || evidence.current_device.empty()) return std::nullopt;
  std::string_view device;
  for (const Operand& operand : evidence.operands) {
    if (operand.device == evidence.current_device || (!device.empty() && operand.device != device)) return std::nullopt;
    device = operand.device;
  }
  if (device.empty()) return std::nullopt;
  return Cause{"unguarded-kernel", Confidence::high,
               fmt::format("Everything the kernel works on is on {}, but {} was the current device: the code that "
                           "launches it sets no device.",
                           device, evidence.current_device),
               guard(evidence)};
}

}  // namespace devtrace::report::verdict::rules
