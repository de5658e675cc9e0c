// The memory of this process by device, as it is now. libdevtrace.so keeps it in this form in its own memory, where
// `devtrace attach` reads it from outside: a process that hangs still shows it, and nothing is written for it.
#pragma once

#include <cstdint>

namespace devtrace {

struct LiveMemory {
  static constexpr uint64_t kVersion = 1;
  static constexpr int kDevices = 32;
  struct Device {
    // Bytes. PyTorch's allocator says the first two with each block that it gives and takes; those of before devtrace
    // was attached are among them.
    uint64_t tensors = 0;   // in live blocks of PyTorch's
    uint64_t reserved = 0;  // what PyTorch holds of CUDA
    uint64_t peak = 0;      // the most of `tensors` since devtrace came
    // Of allocations that were seen, or that CUDA was asked for: PyTorch's own as well.
    uint64_t allocated = 0;
    uint64_t allocated_peak = 0;
  };

  uint64_t version = kVersion;
  Device devices[kDevices];
};

}  // namespace devtrace
