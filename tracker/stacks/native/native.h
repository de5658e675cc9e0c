// The native half of capture(), and around fork(): see stacks.h.
#pragma once

#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/native/last_native_stacks.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Hot. The calling thread's native stack, each kept once; 0 where the option or the thread's own stacks want none.
StackId capture_native_stack();
StackId native_call_site_of(StackId id);

// Hot: as capture_native, from this library's outermost frame on, whose address is the first. 0: capture_native has to
// be asked.
size_t capture_native_from_hook(const caller::Frame& hook, void** addresses, size_t capacity);

// The words of the stack that decide that its addresses from `hook` on are those that capture_native_from_hook found.
// Slow: frame by frame. 0: they cannot be told, or are more than `most`.
size_t deciding_words(const caller::Frame& hook, void* const* addresses, size_t count, StackWord* words, size_t most);

// In the order of locks.
void before_fork_native_stacks();
void after_fork_native_stacks();
void before_fork_native();
void after_fork_native();

}  // namespace devtrace::stacks
