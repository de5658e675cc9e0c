// What CuPy's pool gives out and takes back, of which CUDA hears nothing.
#pragma once

namespace devtrace::interpose {

// Where devtrace comes to an interpreter that has imported CuPy already. Waits for the GIL, a second at most; where it
// does not come, or CuPy's class is not as it is known, its pool is not looked into. When CuPy is imported later, the
// hook is set by itself.
void hook_pool();

// The way back. Where the GIL does not come the hook stays, and does nothing while devtrace is detached.
void unhook_pool();

}  // namespace devtrace::interpose
