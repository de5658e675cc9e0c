// A launch is looked at before it happens: does every pointer among its parameters lead to memory of the device on
// which the kernel runs?
#pragma once

#include "common/kernel_run.h"
#include "tracker/interface/event_types.h"

namespace devtrace::launch {

// Hot, for the launches that are nearly all: on the device that the thread has chosen, of a kernel that it has launched
// before, with an address for each parameter. Whether nothing is amiss; else `check` has to look.
bool passes(const void* function, const void* const* parameters);

// Hot: about a nanosecond a word. What it finds suspicious is looked at closely, and reported, before it returns.
void check(const events::Launch& launch);

// The simulated driver has computed a kernel. Reports what it says of its accesses, and what `check` has left for this
// moment: what a launch was given and the kernel did with it is one finding.
void ran(const KernelRun& run) noexcept;

// Reports a launch that CUDA refused for its stream, unless `check` has said what is wrong with it.
void report_refused(const events::Launch& launch) noexcept;

}  // namespace devtrace::launch
