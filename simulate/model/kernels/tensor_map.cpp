#include "simulate/model/kernels/tensor_map.h"

#include <cstring>
#include <iterator>

#include "simulate/kernels/tensor_map.h"

namespace devtrace::simulate {
namespace {

// By CUtensorMapDataType, without those of four and six bits.
constexpr ptx::Type kTypes[] = {ptx::Type::u8,  ptx::Type::u16, ptx::Type::u32, ptx::Type::s32, ptx::Type::u64,
                                ptx::Type::s64, ptx::Type::f16, ptx::Type::f32, ptx::Type::f64, ptx::Type::bf16,
                                ptx::Type::f32, ptx::Type::f32, ptx::Type::f32};

}  // namespace

CUresult encode_tensor_map(const TiledTensor& from, CUtensorMap* map) {
  *map = {};
  map->opaque[0] = reinterpret_cast<cuuint64_t>(from.address);
  const auto type = static_cast<size_t>(from.type);
  if (type >= std::size(kTypes) || from.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      from.swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    return CUDA_SUCCESS;
  kernels::TensorMap made = {};
  made.address = map->opaque[0];
  made.magic = kernels::kTensorMap;
  made.type = kTypes[type];
  made.rank = static_cast<uint8_t>(from.rank);
  made.swizzle = static_cast<uint8_t>(from.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : 16u << from.swizzle);
  made.fill_with_nan = from.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  for (cuuint32_t i = 0; i < from.rank; ++i) {
    made.last[i] = static_cast<uint32_t>(from.dims[i] - 1);
    made.box[i] = static_cast<uint16_t>(from.box[i]);
    made.steps[i] = static_cast<uint8_t>(i ? from.steps[i] : 1);
    if (i) made.strides[i - 1] = from.strides[i - 1];
  }
  const size_t row = made.box[0] * ptx::bytes_of(made.type);
  if (row % 16 || (made.swizzle && row > made.swizzle)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(static_cast<void*>(map), &made, sizeof made);
  return CUDA_SUCCESS;
}

}  // namespace devtrace::simulate
