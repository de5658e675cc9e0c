// One program on several machines, which this one plays.
#pragma once

#include "cli/launch/launch.h"

namespace devtrace::cli {

// Runs it once for each host, side by side, each with what torchrun and other launchers take from the environment.
// Returns the first exit code that is not 0, by the hosts' order.
int launch_on_hosts(const Launch& launch, int hosts);

}  // namespace devtrace::cli
