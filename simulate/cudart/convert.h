// Runtime structs as the driver has them.
#pragma once

#include "simulate/cudart/runtime.h"

namespace devtrace::simulate::runtime {

// A copy between arrays and pitched memory. Sizes and offsets of an array's side are in elements in the runtime, bytes
// in the driver.
cudaError_t convert(const cudaMemcpy3DParms& from, CUDA_MEMCPY3D* to);

}  // namespace devtrace::simulate::runtime
