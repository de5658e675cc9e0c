// The real headers, with everything they declare exported: the compiler checks each stub against the true
// prototype, and the build hides the rest (-fvisibility=hidden, version scripts).
#pragma once
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
