// The stack of the command's own failure: a failed check, an exception that nobody catches, a bad address.
#pragma once

namespace devtrace::cli {

// From here on a failure's stack goes to stderr before the command ends by the same signal.
void show_failure_stack();

}  // namespace devtrace::cli
