// Who called into this library.
#pragma once

#include <cstdint>
#include <string_view>

namespace devtrace::stacks::caller {

// Hot: the address, in somebody else's code, from which this library was called, less one so that it lies inside the
// call; 0 when it cannot be told. Follows this library's own frames only, which all keep their frame pointers
// (-fno-omit-frame-pointer in the Makefile).
uintptr_t address();

// Hot: the outermost of this library's frames that called the function of its own whose frame `frame` is. Where it goes
// on, with its frame pointer and its stack pointer. All 0 when it cannot be told.
struct Frame {
  uintptr_t address = 0, frame = 0, stack = 0;
};
Frame outermost_own(const void* frame);

// Whether this library is linked into the program itself: its tests and benchmarks.
bool is_the_program();

// Hot: whether an address lies in this library's code.
bool is_own(uintptr_t address);

// From now on this library is called by others on the program's behalf. The libraries whose file names begin with one
// of these (a list that ends with null and lives as long as the process; null: none) count as this one. `address`
// is who called them. It then takes microseconds.
void called_through(const char* const* libraries);

// Whether an object file, by its path, counts as this library.
bool counts_as_own(std::string_view path);

}  // namespace devtrace::stacks::caller
