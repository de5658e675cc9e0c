// Every function of the driver API with its parameters, for the wrappers of common/callbacks.cpp.
#pragma once

#include "simulate/common/cuda_headers.h"

extern "C" {

// Of cudaProfiler.h, which the wheels leave out.
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

}  // extern "C"
