// A stretch of memory that CUDA gave out, and whose it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/interface/device.h"

namespace devtrace {

enum class MemoryKind : uint8_t {
  device,   // one device's own; others may reach it only as peers
  managed,  // every device's and the host's
  pinned,   // the host's, and every device's
};

struct Extent {
  uintptr_t address = 0;
  size_t bytes = 0;
  Device device;  // of managed and pinned memory: the CPU
  MemoryKind memory = MemoryKind::device;
  bool queried = false;  // nobody saw it being allocated, so nobody need see it being freed: CUDA was asked for it
  uint64_t key() const { return address; }
};

}  // namespace devtrace
