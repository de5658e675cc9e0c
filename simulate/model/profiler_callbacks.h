// Which API call is under way, who wants to know what comes of it, and a profiler that the environment asks the driver
// to load.
#pragma once

#include <cstdint>

#include "simulate/common/callbacks.h"

namespace devtrace::simulate {

// The number that a profiler knows the thread's call by; 0 where nobody listens.
uint32_t current_correlation();

// Tells whoever listens. Where no lock is held.
void notice(Domain domain, uint32_t callback, CUcontext context, CUstream stream = nullptr);

// Who wants to know what devices do; null: nobody.
const Listener* work_listener();

// CUDA_INJECTION64_PATH is set, and nobody has called inject() yet.
bool injection_pending();
// Opens the library that CUDA_INJECTION64_PATH names and calls its InitializeInjection, once a process and its forked
// children. Later callers wait until that is done, but not the profiler's own thread, which may call the driver. True
// for the first caller, whether there was a profiler or not.
bool inject();

}  // namespace devtrace::simulate
