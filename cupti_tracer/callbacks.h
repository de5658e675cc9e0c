// CUPTI's callbacks, turned into the events that the hooks tell.
#pragma once

#include "cupti_tracer/library.h"

namespace devtrace::cupti_tracer {

// Enables the callbacks of every hooked function that this CUPTI knows, each by itself. A whole domain would cost every
// CUDA call of the program, and leaves out the launches of graphs. Returns how many there are; `refused` names those
// that CUPTI does not deliver, and why: "cudaMalloc, cuMemAlloc and 3 more (CUPTI_ERROR_NOT_COMPATIBLE)"; empty: none.
int enable_callbacks(const Library& cupti, CUpti_SubscriberHandle subscriber, std::string& refused);

// What CUPTI calls, on the thread that calls CUDA. Tells nothing unless `enable_events(true)` was said.
void CUPTIAPI callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
void enable_events(bool whether);

// The calling thread is in the middle of a call of the runtime's of which only the exit will be delivered. What the
// runtime meanwhile calls of the driver is part of it. `reported`: somebody else emits its event.
void inside_call(bool reported);

}  // namespace devtrace::cupti_tracer
