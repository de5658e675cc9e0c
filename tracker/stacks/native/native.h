// The native half of capture(), and around fork(): see stacks.h.
#pragma once

#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Hot. The calling thread's native stack, each kept once; 0 where the option or the thread's own stacks want none.
StackId capture_native_stack();
StackId native_call_site_of(StackId id);

// Hot: as capture_native, from this library's outermost frame on, whose address is the first. 0: capture_native has to
// be asked.
size_t capture_native_from_hook(void** addresses, size_t capacity);

// In the order of locks.
void before_fork_native_stacks();
void after_fork_native_stacks();
void before_fork_native();
void after_fork_native();

}  // namespace devtrace::stacks
