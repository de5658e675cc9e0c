// Where the two ends of a copy lie: what the caller declares of each, and which device owns the memory. Worked out once
// for each copy; the check, the traffic counters and a finding's record all take it from here.
#pragma once

#include <cstdint>

#include "tracker/interface/event_types.h"
#include "tracker/memory/ownership.h"

namespace devtrace::memory {

enum class Declared : uint8_t { nothing, host, any_device, this_device };

struct CopyEnd {
  uintptr_t address = 0;  // 0: an array or a variable of the program, whose address the caller does not know
  Declared declared = Declared::nothing;
  Device declared_device;  // of this_device
  Device likely;           // ownership::likely, the owner of the address's chunk
};

struct CopyEnds {
  CopyEnd to;
  CopyEnd from;
};

// Hot: a load for each end.
inline CopyEnds ends_of(const events::Copy& copy) {
  using enum events::Direction;
  const auto end = [&](const void* place, int device, events::Direction other_direction) {
    CopyEnd end;
    end.address = reinterpret_cast<uintptr_t>(place);
    end.likely = ownership::likely(end.address);
    if (device >= 0) {
      end.declared = Declared::this_device;
      end.declared_device = Device::cuda(device);
    } else if (copy.direction != undeclared) {
      const bool on_device = copy.direction == device_to_device || copy.direction == other_direction;
      end.declared = on_device ? Declared::any_device : Declared::host;
    }
    return end;
  };
  return {end(copy.to, copy.to_device, host_to_device), end(copy.from, copy.from_device, device_to_host)};
}

}  // namespace devtrace::memory
