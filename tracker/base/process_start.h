// When this process began, for the log.
#pragma once

namespace devtrace::process_start {

// Called when the library is loaded, and in a fork's child.
void note();
// Seconds since the epoch.
double time();
// Seconds since the epoch, now.
double now();

}  // namespace devtrace::process_start
