// Who met a fault, and who met it first, as far as clocks can tell.
#pragma once

#include <string>

#include "report/check/collection.h"

namespace devtrace::report::check {

// "8 processes, 16 times: rank 0 (gpu-07, pid 4711), rank 1 (gpu-07, pid 4712), …"; of one process "rank 0 (…), twice".
std::string occurrences(const Fault& fault, const Collection& logs);

// "first in rank 3 (gpu-07, pid 4714), 12 ms before rank 0 (gpu-07, pid 4711)". Processes of one machine have one
// clock. Those of several are compared only as far as the machines' own bounds of error reach, else it is said that
// they cannot be. Empty for less than two processes.
std::string who_was_first(const Fault& fault, const Collection& logs);

// ", of ranks 0 to 3 and 6", ", of gpu-07 and gpu-08" where processes are no ranks; of a single host nothing.
std::string owners(const Site& site, const Collection& logs);

}  // namespace devtrace::report::check
