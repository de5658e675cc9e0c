// Which results the environment wants computed. Apart from Settings, as it is asked before the first use of CUDA, when
// the program may yet choose its devices.
#pragma once

#include "simulate/settings/option_parsing.h"

namespace devtrace::simulate {

// DEVTRACE_SIM_VALUES, read once. A bad value is one line on stderr, and as if it was not set.
const WantedValues& wanted_values();

}  // namespace devtrace::simulate
