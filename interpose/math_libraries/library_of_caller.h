// Which of several cuBLAS libraries a call means: CUDA 12's and 13's may be in one process, and a handle of one is none
// of the other.
#pragma once

#include "interpose/linking/original.h"

namespace devtrace::interpose {

// Hot: the function that the call which returns to `caller` means. One load, unless several libraries of that name are
// loaded; then microseconds.
void* library_function_for(Symbol symbol, const void* caller);

// Before a handle is made, or where one turns up that nobody saw being made: looks how many libraries there are now.
// The library that the caller means stays loaded from then on, as its functions are remembered.
void look_at_libraries(Symbol symbol, const void* caller);

}  // namespace devtrace::interpose
