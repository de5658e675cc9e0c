// The tracker's life in a process: start, fork, end. The one owner of the order in which its locks are taken.
#pragma once

#include <cstddef>

#include "tracker/interface/platform.h"

namespace devtrace::session {

// Once, before the first event. Every process on the machine may run this: it is a handful of system calls.
void start(const Platform& platform);

// devtrace was attached to the running process: events come from now on. What was known of an earlier time is
// forgotten, but for findings and the log.
void attached();
// After that, with the hooks set and the log open: what was there before is looked at, as far as it tells of itself.
// The number of PyTorch's blocks.
size_t look_at_preexisting();
// PyTorch's Python module is being loaded. Seldom; not under the loader's lock.
void pytorch_loaded() noexcept;
// No event does anything any more, until it is attached again. What is left to write is written.
void detached() noexcept;

// For pthread_atfork: takes every lock, and gives them back in the parent and in the child, where all that belongs to
// the parent is forgotten.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

// The process ends with `status`: what is left to write is written, once. Does nothing in a vfork's child, which runs
// in its parent's memory.
void finish(int status) noexcept;

// With `status` that the program ends with: the one to end with instead (option error_exitcode).
int exit_code(int status);

}  // namespace devtrace::session
