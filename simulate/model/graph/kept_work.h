// Work that is captured while Python keeps operators for a graph's replays, and whose place is between these: the
// graph's launch is in front of all of them. It is what other processes take part in, copies, fills, functions of the
// host's, and kernels. These are computed there, or what they should have written is marked.
#pragma once

#include "simulate/model/operation.h"

namespace devtrace::simulate {

// Takes it out of the operation, if it is such work.
void keep_work(Operation& operation);

}  // namespace devtrace::simulate
