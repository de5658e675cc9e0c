// Which API call is under way, and who wants to know what comes of it.
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

}  // namespace devtrace::simulate
