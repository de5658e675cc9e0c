// PyTorch's live blocks of CUDA memory from before devtrace was attached: what its caching allocator says of itself.
#pragma once

#include <cstddef>

namespace devtrace::preexisting {

// Makes these blocks, and the segments that they lie in, known: their devices and sizes; where they were made nobody
// saw. The hooks are set already, so that what ends meanwhile is noticed. Runs a function of PyTorch's written in C++
// (torch._C._cuda_memorySnapshot) under the GIL, some microseconds a block, and no Python code. The number of blocks;
// 0 where there is no PyTorch in Python, its allocator is another, or the GIL does not come within a second. CUDA is
// then asked for each device when memory is first met.
size_t learn_blocks();

}  // namespace devtrace::preexisting
