#include <utility>

#include "stencil.h"

__global__ void diffuse(const float* field, float* next, int rows, int columns) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y + 1;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row > rows || column < 1 || column >= columns - 1) return;
  const int at = row * columns + column;
  next[at] = 0.25f * (field[at - 1] + field[at + 1] + field[at - columns] + field[at + columns]);
}

void advance(Slab& slab) {
  const dim3 block(32, 8), grid((slab.columns + 31) / 32, (slab.rows + 7) / 8);
  diffuse<<<grid, block>>>(slab.field, slab.next, slab.rows, slab.columns);
  std::swap(slab.field, slab.next);
}
