// A copy is looked at before it happens: do its two ends lie where the caller says?
#pragma once

#include "tracker/interface/event_types.h"
#include "tracker/memory/copy_ends.h"

namespace devtrace::copy {

// Hot: a load for each end that leaves its chunk, no lock. What that makes suspicious is looked at closely, and
// reported, before it returns.
void check(const events::Copy& copy, const memory::CopyEnds& ends);

}  // namespace devtrace::copy
