// Work that other processes take part in and that is captured while Python keeps operators for a graph's replays. It is
// done between these: the graph's launch is in front of all of them.
#pragma once

#include "simulate/model/operation.h"

namespace devtrace::simulate {

// Takes it out of the operation, if it is such work.
void keep_communication(Operation& operation);

}  // namespace devtrace::simulate
