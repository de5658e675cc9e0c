// How much memory of each device is in use now, for whoever looks on (common/live_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/live_memory.h"
#include "tracker/interface/device.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::memory::live_memory {

// Hot. What PyTorch's allocator says of itself. Nothing for devices that are none of CUDA's.
// `stack`: who was given the block by which it has so much; 0: nobody knows.
void torch_has(Device device, size_t tensors, size_t reserved, stacks::StackId stack = 0);

// When PyTorch's tensors took the most. Another thread's new one may be missed at that moment.
struct Peak {
  uint64_t tensors = 0, reserved = 0;  // bytes, then
  uint64_t time = 0;                   // nanoseconds since the epoch, to the kernel's tick
  stacks::StackId stack = 0;
};
Peak peak_of(Device device);

// Hot. An allocation of CUDA's came, or is gone.
void allocated(Device device, size_t bytes);
void freed(Device device, size_t bytes);

void forget_all();

const LiveMemory& now();

}  // namespace devtrace::memory::live_memory
