// What the launches go by: two devices with their contexts, the kernel in each, a graph, and memory of cuda:0.
#pragma once

#include "tests/programs/matrix/cuda.h"

namespace matrix {

extern char stub;  // its address is what a host stub's would be
extern cudaKernel_t kernel;
extern CUmodule modules[2];
extern CUfunction functions[2];
extern CUcontext contexts[2];
extern CUgraph graph;
extern CUgraphNode node;
extern CUgraphExec exec;
extern void* here;

constexpr size_t kBytes = 1 << 16;  // of an allocation, where its size is free

void use(int device);
void prepare();

}  // namespace matrix
