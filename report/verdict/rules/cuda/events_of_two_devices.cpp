// Events and streams belong to the device that was current when they were made, or were recorded first.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> events_of_two_devices(const Evidence& evidence) {
  const bool recorded = evidence.message.starts_with("Event device ");
  if ((!evidence.refusal.handles && !recorded) || evidence.devices.size() < 2) return std::nullopt;
  return Cause{"event-device", Confidence::high,
               fmt::format("{} takes events and streams of one device, and these are of {} and {}: an event belongs to "
                           "the device that is current when it is first recorded. Record both within "
                           "`with torch.cuda.device(…)` of one device.",
                           evidence.operation, evidence.devices[0], evidence.devices[1]),
               std::nullopt};
}

}  // namespace devtrace::report::verdict::rules
