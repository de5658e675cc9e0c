// Which calls of cudaSetDevice are those of PyTorch's device guards.
#pragma once

namespace devtrace::stacks::caller {

// Hot. Whether a guard of PyTorch's that begins has called cudaSetDevice's hook, whose frame that is; null: no. It puts
// the device back before the line of Python's goes on that runs now. The first few guards of a process are not
// recognized. Takes no lock but for those.
bool is_device_guard(const void* hook);

}  // namespace devtrace::stacks::caller
