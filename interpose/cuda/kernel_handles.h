// Kernels by the handles with which the program launches them.
#pragma once

#include <string>

#include "tracker/interface/kernel.h"

namespace devtrace::interpose {

// What a launch's first argument can be.
enum class Handle {
  stub,      // a function of the host, which the CUDA runtime knows (cudaLaunchKernel)
  kernel,    // CUkernel (__cudaLaunchKernel)
  function,  // CUfunction, or a CUkernel in its place (cuLaunchKernel)
};

// Asks CUDA the first time or, where it is older than 12.4, reads the kernel's image.
const Kernel* kernel_of(const void* function, Handle handle);

// What the code behind a handle does with its parameters: read out of the image it came from. Takes milliseconds; empty
// when that was not seen or is of no known format.
WordUses uses_of_parameters(const void* function, const std::string& name);

}  // namespace devtrace::interpose
