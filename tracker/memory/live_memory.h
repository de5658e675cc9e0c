// How much memory of each device is in use now, for whoever looks on (common/live_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/live_memory.h"
#include "tracker/interface/device.h"

namespace devtrace::memory::live_memory {

// Hot. What PyTorch's allocator says of itself. Nothing for devices that are none of CUDA's.
void torch_has(Device device, size_t tensors, size_t reserved);

// Hot. An allocation of CUDA's came, or is gone.
void allocated(Device device, size_t bytes);
void freed(Device device, size_t bytes);

void forget_all();

const LiveMemory& now();

}  // namespace devtrace::memory::live_memory
