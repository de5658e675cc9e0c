// Launching, as graphs and the runtime need it too.
#pragma once

#include "simulate/common/cuda_headers.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

struct Shape {
  unsigned grid[3], block[3];
  unsigned shared;           // dynamic bytes
  bool cooperative = false;  // all blocks may wait for each other
  unsigned cluster[3] = {};  // blocks; zeros: the kernel says how many
};

// Whether the device could run the kernel in this shape.
CUresult check_shape(const Function& f, const Shape& shape);
// A kernel operation; its arguments are still the caller's.
CUresult make_kernel(CUfunction handle, const Shape& shape, void** parameters, void** extra, Operation* operation);
// Copies the arguments into the operation, for when it runs after the call.
void keep_arguments(Operation* operation);
CUresult launch_kernel(CUfunction handle, const Shape& shape, CUstream stream, void** parameters, void** extra);

}  // namespace devtrace::simulate
