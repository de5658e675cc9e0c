// What compiled programs register at load: fat binaries, kernels behind host stubs, device variables behind host
// shadows.
#pragma once

#include <cstddef>

#include "simulate/cudart/runtime.h"

namespace devtrace::simulate::runtime {

// The kernel behind a host stub; null when nobody registered it.
CUkernel kernel_of(const void* stub);

// A device variable on the current device, allocated at its first use. cudaErrorInvalidSymbol when nobody registered
// it.
cudaError_t variable_of(const void* shadow, CUdeviceptr* address, size_t* size);

}  // namespace devtrace::simulate::runtime
