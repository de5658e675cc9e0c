// A platform of which device 0 is current and nothing else is known: nothing that a benchmark measures asks it.
#pragma once

#include <string>
#include <vector>

#include "tracker/interface/platform.h"

namespace devtrace::testing {

inline Platform platform_of_device_0() {
  return {.current_device = [] { return 0; },
          .cuda_version = [] { return std::string(); },
          .devices = [] { return std::vector<DeviceFacts>(); },
          .simulated = [] { return true; },
          .uses_of_parameters = [](const void*, const std::string&) { return WordUses(); },
          .memory_at = [](uint64_t, Extent&) { return Platform::Answer::nobodys; },
          .host_within_reach = [](int, uintptr_t) { return true; }};
}

}  // namespace devtrace::testing
