// What every file of the driver API includes.
#pragma once

#include "simulate/common/cuda_headers.h"
#include "simulate/model/device.h"

namespace simulate = devtrace::simulate;

// Returns from the calling function when the expression is an error.
#define TRY(expression)                                  \
  do {                                                   \
    if (CUresult failed_ = (expression)) return failed_; \
  } while (0)

namespace devtrace::simulate {
// Every device call first: cuInit done, no fork since.
inline CUresult ready() {
  return initialized() && !forked() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
}  // namespace devtrace::simulate
using simulate::ready;
