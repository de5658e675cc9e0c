// The end of an import that is going on.
#pragma once

#include "simulate/values/interpreter.h"

namespace devtrace::simulate::values {

// Calls `callback`, with one argument, as soon as the import of `module` has ended, in the thread that imports it and
// before the statement behind it. False: nobody imports it now, or this Python does not show. For a thread that holds
// the GIL.
bool call_at_import_end(const char* module, PyObject* callback);

}  // namespace devtrace::simulate::values
