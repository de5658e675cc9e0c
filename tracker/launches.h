// A launch is looked at before it happens: does every pointer among its parameters lead to memory of the device on
// which the kernel runs?
#pragma once

#include <vector>

#include "tracker/events.h"

namespace devtrace::launches {

// Hot: about a nanosecond a word. What it finds suspicious is looked at closely, and reported, before it returns.
void check(const events::Launch& launch);

}  // namespace devtrace::launches

namespace devtrace {

// A launch that was given memory of another device, or of the host that devices cannot reach.
struct MisplacedLaunch {
  struct Pointer {
    uintptr_t address;
    Device device;          // the owner of the memory it points into
    uint16_t parameter;     // index
    uint16_t in_parameter;  // bytes from the parameter's start
  };
  const events::Launch& launch;
  Device device;                  // on which the kernel is to run
  std::vector<Pointer> pointers;  // into memory of devices, or such of the host; in order; at least one leads elsewhere
};

}  // namespace devtrace
