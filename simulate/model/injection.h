// A profiler that the environment asks the driver to load.
#pragma once

namespace devtrace::simulate {

// CUDA_INJECTION64_PATH is set, and nobody has called inject() yet.
bool injection_pending();
// Opens the library that CUDA_INJECTION64_PATH names and calls its InitializeInjection, once a process and its forked
// children; later callers wait until that is done, but not the profiler's own thread, which may call the driver. True
// for the first caller, whether there was a profiler or not.
bool inject();

}  // namespace devtrace::simulate
