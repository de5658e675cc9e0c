// A call of a mathematics library is looked at before it happens, as a launch is. Does what it points to lie on the
// device that its handle was made for?
#pragma once

#include "tracker/interface/event_types.h"

namespace devtrace::launch {

// Hot: a look-up of the handle, and one load for each argument. What it finds suspicious is looked at closely, and
// reported, before it returns.
events::HandleKnown check(const events::LibraryCall& call) noexcept;

// A call that `check` has told of is over.
void told_call_returned();
// Whether one is under way on this thread: what it launches is not told of again.
bool within_told_call();

// Reports a call that the library refused because another device than its handle's is current.
void report_refused(const events::LibraryCall& call) noexcept;
// Reports an event that CUDA did not record, where the stream is of another device.
void report_refused_event(const events::LibraryCall& call, Device of_stream) noexcept;

}  // namespace devtrace::launch
