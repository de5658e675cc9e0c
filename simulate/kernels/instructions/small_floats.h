// Floating point of 16 and 8 bits, as bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace devtrace::simulate::kernels {

// Half precision. The way back rounds as the processor is set to.
inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if (magnitude >= 0x0f800000) bits |= 0x7f800000;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(h & 0x8000) << 16);
}
inline uint16_t half_of(double x) {
  if (std::isnan(x)) return 0x7fff;
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}

inline float bfloat_to_float(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}
// To the nearest, or towards zero.
inline uint16_t bfloat_of(float x, bool to_zero = false) {
  if (std::isnan(x)) return 0x7fff;
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (!to_zero) bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

// A type of 16 bits: how its bits become a number and a number its bits.
struct Half {
  static float value(uint16_t bits) { return half_to_float(bits); }
  static uint16_t bits(double value) { return half_of(value); }
};
struct Bfloat {
  static float value(uint16_t bits) { return bfloat_to_float(bits); }
  static uint16_t bits(double value) { return bfloat_of(static_cast<float>(value)); }
};

// Eight bits with `mantissa` of them behind the point: e4m3 (3, no infinity) and e5m2 (2).
float small_to_float(uint8_t bits, int mantissa);
uint8_t small_of(float x, int mantissa);  // to the nearest; what is too large becomes the largest

}  // namespace devtrace::simulate::kernels
