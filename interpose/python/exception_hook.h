// Every Python exception as it is made: where devtrace comes to an interpreter that has loaded PyTorch already.
#pragma once

namespace devtrace::interpose {

// Waits for the GIL, a second at most; false: it did not come, and Python's exceptions are not looked at. Does nothing
// where there is no PyTorch: when that is imported, the hook is set by itself.
bool hook_exceptions();

// The same way back. Where the GIL does not come the hook stays, and does nothing while devtrace is detached.
void unhook_exceptions();

}  // namespace devtrace::interpose
