// Who called into this library.
#pragma once

#include <cstdint>

namespace devtrace::own_code {

// Hot: the address, in somebody else's code, from which this library was called, less one so that it lies inside the
// call; 0 when it cannot be told. Follows this library's own frames only, which all keep their frame pointers
// (-fno-omit-frame-pointer in the Makefile).
uintptr_t caller();

}  // namespace devtrace::own_code
