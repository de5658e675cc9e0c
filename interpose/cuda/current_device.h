// Which device is the calling thread's, and whose an address is. None of these initialises CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/interface/device.h"

namespace devtrace::interpose {

// Hot: the device that this thread is known to have set, else what CUDA answers. Unknown when CUDA is not in use.
Device current_device();

// What CUDA answers, whatever is remembered; -1 when it is not in use.
int exact_current_device();

// The device on which the memory at an address lies, as the driver tells; unknown when it does not know the address.
Device exact_owner(uint64_t address);

// The same; where the driver does not tell, the current device.
Device owner(uint64_t address);

// Tells of memory that another process allocated and this one has opened at the address: all of that allocation, whose
// size the program is not told. Nothing when the driver does not know it.
void emit_opened(uint64_t address);

// An attribute (CUdevice_attribute) of a device; false when nobody answers.
bool device_attribute(int device, int attribute, int& value);

// The device of a context (CUcontext); -1 when it cannot be had.
int device_of_context(void* context);

// The device of a stream (CUstream); -1 when it cannot be had.
int device_of_stream(const void* stream);

}  // namespace devtrace::interpose
