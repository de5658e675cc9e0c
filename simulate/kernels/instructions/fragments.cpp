#include "simulate/kernels/instructions/fragments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {

using ptx::Type;

uint32_t bits_of(Type type) {
  if (type == Type::b1) return 1;
  if (type == Type::s4 || type == Type::u4) return 4;
  return 8 * static_cast<uint32_t>(ptx::bytes_of(type));
}

double element(Type type, const uint8_t* at, uint32_t i) {
  uint16_t half = 0;
  uint32_t word = 0;
  double wide = 0;
  switch (type) {
    case Type::b1:
      return at[i / 8] >> (i % 8) & 1;
    case Type::u4:
      return at[i / 2] >> (4 * (i % 2)) & 15;
    case Type::s4:
      return ((at[i / 2] >> (4 * (i % 2)) & 15) ^ 8) - 8;
    case Type::f16:
      std::memcpy(&half, at + 2 * i, 2);
      return static_cast<double>(half_to_float(half));
    case Type::bf16:
      std::memcpy(&half, at + 2 * i, 2);
      return static_cast<double>(bfloat_to_float(half));
    case Type::s8:
      return static_cast<double>(static_cast<int8_t>(at[i]));
    case Type::u8:
      return static_cast<double>(at[i]);
    case Type::e4m3:
      return static_cast<double>(small_to_float(at[i], 3));
    case Type::e5m2:
      return static_cast<double>(small_to_float(at[i], 2));
    case Type::f64:
      std::memcpy(&wide, at, 8);
      return wide;
    case Type::s32:
      std::memcpy(&word, at, 4);
      return static_cast<double>(static_cast<int32_t>(word));
    case Type::tf32:
      std::memcpy(&word, at, 4);
      word &= ~0x1fffu;
      return static_cast<double>(std::bit_cast<float>(word));
    default:
      std::memcpy(&word, at, 4);
      return static_cast<double>(std::bit_cast<float>(word));
  }
}

void set_element(Type type, uint8_t* at, uint32_t i, double value, bool saturate) {
  if (type == Type::f16) {
    const uint16_t half = half_of(value);
    std::memcpy(at + 2 * i, &half, 2);
  } else if (type == Type::f64) {
    std::memcpy(at, &value, 8);
  } else if (type == Type::s32) {
    const auto whole = static_cast<int64_t>(value);
    const auto word = saturate ? static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(whole, INT32_MIN), INT32_MAX))
                               : static_cast<int32_t>(whole);
    std::memcpy(at, &word, 4);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(at, &single, 4);
  }
}

// A row at a time, so that the columns vectorise. Each sum is taken in the order of k.
void Product::compute() {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t k = 0; k < depth; ++k) {
      const double one = a[row][k];
      double* const sum = sums[row];
      const double* const other = b[k];
      if (exclusive)
        for (uint32_t column = 0; column < columns; ++column) sum[column] += std::fabs(one - other[column]);
      else
        for (uint32_t column = 0; column < columns; ++column) sum[column] += one * other[column];
    }
}

}  // namespace devtrace::simulate::kernels
