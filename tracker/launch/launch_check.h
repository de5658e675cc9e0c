// A launch is looked at before it happens: does every pointer among its parameters lead to memory of the device on
// which the kernel runs?
#pragma once

#include "tracker/interface/event_types.h"

namespace devtrace::launch {

// Hot: about a nanosecond a word. What it finds suspicious is looked at closely, and reported, before it returns.
void check(const events::Launch& launch);

// Reports a launch that CUDA refused for its stream, unless `check` has said what is wrong with it.
void report_refused(const events::Launch& launch) noexcept;

}  // namespace devtrace::launch
