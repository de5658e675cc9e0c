// A CUDA runtime inside a loaded object becomes the stand-in runtime.
#pragma once

#include <link.h>

namespace devtrace::simulate::static_runtime {

// Looks for one in an object whose code has not run yet, and sends its functions to the stand-in of its version, as if
// the file were linked with `-cudart shared`; what stands in the way is told on stderr. `first`: the program, at the
// beginning of the loader's list; `program`: what the user calls it.
void take_over(const link_map* first, const link_map& object, const char* program);

}  // namespace devtrace::simulate::static_runtime
