// A function of libdevtrace.so called in a process through CPython's own interface for remote debuggers (PEP 768, 3.14
// and later): no thread is stopped. The main thread opens the library between two instructions of Python, and a new
// thread does the work.
#pragma once

#include <optional>

#include "attach/process/target.h"
#include "attach/request.h"

namespace devtrace::attach {

// Nothing: this is no such Python, it is switched off there, or its main thread did not come back to Python's
// instructions in half a second. Nothing of the process has changed then.
std::optional<Answer> call_by_interpreter(const Target& target, const Request& request);

}  // namespace devtrace::attach
