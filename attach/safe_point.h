// Whether a stopped thread may be made to call pthread_create. Not while it is in the allocator, in the loader or in
// the C library's own code, whose locks it may hold.
//
// A thread that sleeps in a system call which programs wait in (poll, futex, …), or runs code of its own, is outside of
// them. Not so where a frame of theirs stands on its stack. So each word near the stack's top is looked at; an old
// value that is left there makes the answer "no" too often, never "yes".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attach/process/remote_object.h"
#include "process/memory.h"

namespace devtrace::attach {

// Where it must not be.
struct UnsafeCode {
  std::vector<Range> never;  // the loader, an allocator of the process's own, functions that allocate or make threads
  std::vector<Range> c_library;  // its other functions: only in a system call
};
UnsafeCode unsafe_code(const process::RemoteMemory& memory, const std::vector<LoadedObject>& objects);

constexpr size_t kStackLooked = 2048;  // bytes: the allocator calls no deeper

struct StoppedThread {
  uintptr_t instruction = 0;
  long system_call = -1;  // -1: it is in none
  std::span<const uintptr_t> stack;
};
bool is_safe(const StoppedThread& thread, const UnsafeCode& unsafe);

}  // namespace devtrace::attach
