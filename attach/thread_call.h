// A function of libdevtrace.so called in a process by a thread of its own: one of its threads is borrowed by ptrace at
// a safe point, to make it.
#pragma once

#include "attach/process/target.h"
#include "attach/request.h"

namespace devtrace::attach {

// Throws Failure; nothing of the process has changed then.
Answer call_by_thread(const Target& target, const Request& request);

}  // namespace devtrace::attach
