// Tensor maps: what kernels copy boxes of tensors by.
#include "simulate/model/kernels/tensor_map.h"

#include "simulate/cuda/api.h"

extern "C" {

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                        const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill fill) {
  if (!map || rank < 1 || rank > 5 || !dims || !box || !steps || (rank > 1 && !strides))
    return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<uintptr_t>(address) % 16 || reinterpret_cast<uintptr_t>(map) % 64)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < rank; ++i)
    if (!dims[i] || dims[i] > uint64_t{1} << 32 || !box[i] || box[i] > 256 || (i && (!steps[i] || steps[i] > 8)) ||
        (i + 1 < rank && strides[i] % 16))
      return CUDA_ERROR_INVALID_VALUE;
  return simulate::encode_tensor_map({type, rank, address, dims, strides, box, steps, interleave, swizzle, fill}, map);
}
CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (!map || reinterpret_cast<uintptr_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  return CUDA_SUCCESS;
}

}  // extern "C"
