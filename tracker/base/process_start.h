// When this process began, for the log.
#pragma once

namespace devtrace::process_start {

// Called when the library is loaded, and in a fork's child.
void note();
// Seconds since the epoch.
double time();
// When devtrace was attached to the running process, seconds since the epoch: what was before, it has not seen. 0: it
// was there from the start.
double attached();
void note_attached();
// Seconds since the epoch, now.
double now();

}  // namespace devtrace::process_start
