// The driver's exported functions.
#pragma once

namespace devtrace::simulate {

// By its symbol, "cuMemAlloc_v2"; null when there is none.
void* exported_function(const char* name);

}  // namespace devtrace::simulate
