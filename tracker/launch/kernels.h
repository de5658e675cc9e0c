// Kernels by the handles with which they are launched: what is known of each is asked once and kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/kernel.h"

namespace devtrace::launch::kernels {

// Hot. What `remember` was told about this function; null before.
const Kernel* known(const void* function);
// A function whose kernel has that name; null: none has. Slow.
const void* named(std::string_view name);
// Keeps it, and answers with what is kept: another thread may have been faster. Allocates.
const Kernel* remember(const void* function, std::string name, const std::vector<device::Parameter>& parameters);
// Leaves of the kernel's words those that its code may use as addresses. PyTorch leaves fields unset that a kernel does
// not read, and what lies there is often an old pointer. Where nobody knows the code (`uses` is empty), the whole
// structures are left out. Allocates.
void ask_code(const Kernel& kernel, const WordUses& uses);
// Handles of unloaded modules are given out again: what is known of functions is asked anew.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::launch::kernels
