// What a kernel that nobody computes should have written: its memory is marked (values/uncomputed.h).
#pragma once

#include "simulate/model/kernels/module.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

// The memory that the kernel's arguments lead to and that it writes to, by its code, or by its signature where the code
// cannot be followed. How much of it is not known: all to the end of its block.
void mark_written(const Operation& op, Function& f);
// The same for a mathematics library's, which says what it writes to.
void mark_written(const Operation& op);

// The host can read managed and pinned memory without a call: what was marked there counts as read when it waits for
// the devices. `for_event`: as PyTorch's allocator does under its lock, too.
void host_waited(bool for_event = false);

}  // namespace devtrace::simulate
