// Tensor maps as computed kernels read them.
#pragma once

#include "simulate/common/cuda_headers.h"

namespace devtrace::simulate {

// As cuTensorMapEncodeTiled is given it, where that would take it.
struct TiledTensor {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t* dims;
  const cuuint64_t* strides;  // bytes, one fewer
  const cuuint32_t *box, *steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

// CUDA_ERROR_INVALID_VALUE: a box whose rows are no whole number of 16 bytes, or wider than the pattern. A map that no
// kernel here can use is made all the same: most of what programs do with one is to hand it on.
CUresult encode_tensor_map(const TiledTensor& from, CUtensorMap* map);

}  // namespace devtrace::simulate
