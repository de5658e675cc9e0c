// A tensor map, as the simulated driver makes it and kernels read it: 128 bytes that programs only hand on.
#pragma once

#include <cstdint>

#include "binary/ptx/types.h"

namespace devtrace::simulate::kernels {

constexpr uint32_t kMostDimensions = 5;

struct TensorMap {
  uint64_t address;       // first, where launches are looked at for it
  uint64_t magic;         // kTensorMap: it is one, and of a kind that is done
  uint64_t strides[4];    // bytes, from the second dimension on
  uint32_t last[5];       // of each dimension the highest index
  uint16_t box[5];        // how many of each dimension are gone over
  uint8_t steps[5];       // of these every so many-th is taken
  uint8_t rank, swizzle;  // bytes of the pattern; 0: none
  bool fill_with_nan;     // in the place of zeros
  ptx::Type type;
};
// Bit 21 is zero: CUTLASS clears it in the second word of maps of small tensors.
constexpr uint64_t kTensorMap = 0x70616d726f536e65;
static_assert(sizeof(TensorMap) <= 128);

}  // namespace devtrace::simulate::kernels
