// A CUDA runtime inside a loaded object becomes the stand-in runtime.
#pragma once

#include <link.h>

namespace devtrace::simulate::static_runtime {

// Looks for one in an object whose code has not run yet. Sends its functions to the stand-in of its version:
// as in a file that is linked with `-cudart shared`. What stands in the way is told on stderr. `first`: the program, at
// the beginning of the loader's list; `program`: what the user calls it.
void patch_runtime(const link_map* first, const link_map& object, const char* program);

}  // namespace devtrace::simulate::static_runtime
