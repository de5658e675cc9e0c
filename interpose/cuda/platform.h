// Answers to the tracker's questions about CUDA.
#pragma once

#include "tracker/interface/platform.h"

namespace devtrace::interpose {

// All but `backend`, `after_fork` and `before_end`, which are for whoever knows of CUPTI too.
Platform cuda_platform();

}  // namespace devtrace::interpose
