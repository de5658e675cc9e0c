// Each trial has ports of its own: runs side by side, and beside the user's own job, want the one that the program
// names.
#pragma once

namespace devtrace::fix::overlay {

// In a fork that DEVTRACE_TRIAL names another run for: the only thread.
void forget_ports();

}  // namespace devtrace::fix::overlay
