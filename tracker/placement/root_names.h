// Several live models of one class, told apart by the variables that hold them.
#pragma once

#include <vector>

#include "tracker/placement/live_modules.h"

namespace devtrace::evidence {

// Sets `variable` of those of which several of one class are there. Under the GIL; looks at the calling thread's
// frames, some microseconds a variable, and changes nothing in them.
void name_roots(std::vector<PlacedRoot>& roots);

}  // namespace devtrace::evidence
