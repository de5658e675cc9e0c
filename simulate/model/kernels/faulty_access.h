// What is said of a kernel that was computed: in a line on stderr where it failed, and to the library that watches the
// process (common/kernel_run.h).
#pragma once

#include "simulate/kernels/launch.h"
#include "simulate/model/kernels/module.h"

namespace devtrace::simulate {

struct RanKernel {
  const Function& function;
  const kernels::Program& program;
  uint32_t index;  // of Program::codes
  const kernels::Launch& launch;
  CUcontext context;
  uint32_t launched_at;  // Operation
};

// For Operation::launched_at, of a kernel that may be computed; 0: nobody watches.
uint32_t launch_site(const Function& function);

// One line. The context's error from now on.
CUresult fail(const RanKernel& ran, const kernels::Result& result);
// Tells whoever watches. With no lock of the driver's held.
void notify(const RanKernel& ran, const kernels::Result& result);

}  // namespace devtrace::simulate
