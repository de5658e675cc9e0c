// A kernel launched on the current device with memory of another one: the launching code set no device guard.
#include <fmt/format.h>

#include "report/verdict/rules.h"

namespace devtrace::report::causes::rules {

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
               std::nullopt};
}

}  // namespace devtrace::report::causes::rules
