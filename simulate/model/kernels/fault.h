// What a kernel would trip over on hardware, seen from its arguments alone.
#pragma once

#include "simulate/model/kernels/module.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

using Grid = unsigned[3];

// Whether a kernel launched in `context` with these arguments would end in an illegal address (error 700). An argument
// points into another device's memory that this context was given no access to, or is a pointer to pageable host
// memory. Only what the kernel's code reads with that grid counts. `arguments` is kernelParams as the caller has it,
// read only where the image tells the kernel's layout.
bool illegal_address(CUcontext context, Function& f, const Grid& grid, void* const* arguments);
// The same for arguments kept by value.
bool illegal_address(CUcontext context, Function& f, const Grid& grid, const Arguments& arguments);

// Whether kernels in the context can use the allocation.
bool usable(CUcontext context, const Allocation& allocation);
// Whether the address lies in memory that kernels in the context cannot use.
bool is_unreachable(CUcontext context, uintptr_t address);

}  // namespace devtrace::simulate
