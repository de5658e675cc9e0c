// Work under the GIL for a thread that may not wait for it without a limit. Whoever holds the GIL may be waiting for
// this very thread, as an extension does that joins its threads without letting go of it.
#pragma once

#include <functional>

#include "tracker/python/python_api.h"

namespace devtrace::python {

// Does the work, which throws nothing, under the GIL; false when the GIL does not come within a second (after one such
// second within a twentieth, until it comes again). As long as others of these are served, it is waited on. A thread
// that holds it does the work itself. For every other one a thread of ours waits for it, and is left to wait where it
// takes too long: it then does nothing when it has it. The calling thread stands still while the work is done; what it
// kept references to (kept_references.h) that thread lets go of.
bool with_gil(const Api& api, const std::function<void()>& work);

}  // namespace devtrace::python
