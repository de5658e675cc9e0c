#include "simulate/kernels/instructions/small_floats.h"

#include <algorithm>

namespace devtrace::simulate::kernels {

float small_to_float(uint8_t bits, int mantissa) {
  const int bias = mantissa == 3 ? 7 : 15, ones = (1 << mantissa) - 1;
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ones;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (mantissa == 3 && (bits & 0x7f) == 0x7f) return NAN;
  if (mantissa == 2 && exponent == 31) return fraction ? NAN : sign * INFINITY;
  const float scale = std::ldexp(1.0f, -mantissa);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction) * scale, 1 - bias);
  return sign * std::ldexp(1.0f + static_cast<float>(fraction) * scale, exponent - bias);
}

uint8_t small_of(float x, int mantissa) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return 0x7f;
  const int bias = mantissa == 3 ? 7 : 15;
  const float largest = mantissa == 3 ? 448.0f : 57344.0f;
  const float a = std::min(std::fabs(x), largest);
  int exponent = 0;
  if (a == 0.0f) return sign;
  std::frexp(a, &exponent);
  exponent = std::max(exponent - 1, 1 - bias);  // of the last place: exponent - mantissa
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(a, mantissa - exponent)));
  // Units of the last place above the smallest exponent's: a carry goes into the exponent by itself.
  const int bits = ((exponent - (1 - bias)) << mantissa) + units;
  const int most = mantissa == 3 ? 0x7e : 0x7b;
  return static_cast<uint8_t>(sign | std::min(bits, most));
}

}  // namespace devtrace::simulate::kernels
