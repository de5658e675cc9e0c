// CUDA arrays: host memory laid out in rows; textures only name them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulate/common/cuda_headers.h"

struct CUarray_st {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  int device = 0;
  uint8_t* data = nullptr;
  size_t pitch = 0;  // bytes a row
  size_t bytes = 0;
  bool owned = true;  // false: a level of a mipmapped array
  size_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  size_t slices() const { return descriptor.Depth ? descriptor.Depth : 1; }
};
