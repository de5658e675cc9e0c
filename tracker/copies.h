// A copy is looked at before it happens: do its two ends lie where the caller says?
#pragma once

#include "tracker/events.h"

namespace devtrace::copies {

// What a caller says of one end of a copy.
enum class Stated : uint8_t { nothing, host, a_device, this_device };

struct StatedEnd {
  Stated what = Stated::nothing;
  Device device;  // of this_device
};

inline StatedEnd stated_destination(const events::Copy& copy) {
  using enum events::Direction;
  if (copy.to_device >= 0) return {Stated::this_device, Device::cuda(copy.to_device)};
  if (copy.direction == unstated) return {};
  const bool device = copy.direction == host_to_device || copy.direction == device_to_device;
  return {device ? Stated::a_device : Stated::host, {}};
}

inline StatedEnd stated_source(const events::Copy& copy) {
  using enum events::Direction;
  if (copy.from_device >= 0) return {Stated::this_device, Device::cuda(copy.from_device)};
  if (copy.direction == unstated) return {};
  const bool device = copy.direction == device_to_host || copy.direction == device_to_device;
  return {device ? Stated::a_device : Stated::host, {}};
}

// The chunks' owners (ownership::likely) of the two ends.
struct Owners {
  Device to;
  Device from;
};

// Hot: a load for each end that leaves its chunk, no lock. What that makes suspicious is looked at closely, and
// reported, before it returns.
void check(const events::Copy& copy, const Owners& likely);

}  // namespace devtrace::copies

namespace devtrace {

// A copy whose ends do not lie where its caller says.
struct MisplacedCopy {
  struct End {
    uintptr_t address = 0;
    Device owner;  // exact; unknown for memory that nobody saw, and for memory that is every device's
    bool wrong = false;
    Device runs_into;  // known: the copy goes on, past the end's own memory, into this device's
  };
  const events::Copy& copy;
  End to;
  End from;
};

}  // namespace devtrace
