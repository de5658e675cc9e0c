// What cuRAND makes of a quasirandom word, by the formulas of its headers for kernels: of 32 or 64 bits.
#pragma once

#include <boost/math/distributions/poisson.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace devtrace::simulate::curand {

template <class T>
T quasi_uniform(uint64_t word, unsigned bits) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(static_cast<uint32_t>(bits == 64 ? word >> 32 : word)) * 0x1p-32f + 0x1p-33f;
  else
    return bits == 64 ? static_cast<double>(word >> 11) * 0x1p-53 + 0x1p-54
                      : static_cast<double>(word) * 0x1p-32 + 0x1p-32;
}

// Mirrored, so that none of it is lost near 1: by the word's first 32 bits in single precision, by 53 in double.
template <class T>
T quasi_normal(uint64_t word, unsigned bits) {
  const unsigned kept = std::is_same_v<T, float> || bits == 32 ? 32 : 53;
  uint64_t x = word >> (bits - kept);
  const bool mirrored = x > uint64_t{1} << (kept - 1);
  if (mirrored) x = (uint64_t{1} << kept) - 1 - x;
  const double p = std::ldexp(static_cast<double>(x) + 0.5, -static_cast<int>(kept));  // in (0, 1/2]
  const double value = M_SQRT2 * boost::math::erfc_inv(2 * p);
  return static_cast<T>(mirrored ? -value : value);
}

// The inverse of the distribution function.
inline unsigned quasi_poisson(uint64_t word, unsigned bits, double lambda) {
  namespace policies = boost::math::policies;
  using Up = policies::policy<policies::discrete_quantile<policies::integer_round_up>,
                              policies::overflow_error<policies::ignore_error>>;
  const double p = std::min(quasi_uniform<double>(word, bits), 1 - 0x1p-53);
  return static_cast<unsigned>(quantile(boost::math::poisson_distribution<double, Up>(lambda), p));
}

}  // namespace devtrace::simulate::curand
