// A launch as the tracker is told of it, from what CUDA's functions are given.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/kernel_handles.h"
#include "tracker/events.h"

namespace devtrace::interpose {

struct Shape {
  unsigned grid[3];
  unsigned block[3];
};

inline Shape shape(dim3 grid, dim3 block) {
  return {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
}

// Of CUlaunchConfig, CUDA_LAUNCH_PARAMS and the driver's graph nodes, which name their fields alike.
template <class Parameters>
Shape shape(const Parameters& p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}};
}

// What a launch's hook knows besides the kernel and its parameters.
struct LaunchTarget {
  const void* stream = nullptr;
  bool graph = false;  // a node of a graph, which will be launched later
  int device = -1;     // on which it will run; -1: the current one
};

// Tells of a launch. The parameters: an address for each, or the driver's other way to pass them, a list of keys and
// values that describes one block (`extra`). With neither there is nothing to look at.
void emit_launch(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target, void** parameters,
                 void** extra = nullptr);

// Tells of a launch that CUDA has refused as one with an invalid handle, if its stream is another device's than the
// current one: of that nothing is known before.
void emit_refused_launch(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target,
                         void** parameters, void** extra = nullptr);

// The same with the block itself.
void emit_launch_block(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target,
                       const void* block, size_t bytes);

}  // namespace devtrace::interpose
