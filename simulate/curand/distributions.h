// What is drawn from random bits, by the formulas of cuRAND's documentation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

namespace devtrace::simulate::curand {

// In (0, 1]: 0 never, 1 sometimes.
template <class T, class Bits>
T uniform(Bits& bits) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(bits()) * 0x1p-32f + 0x1p-33f;
  } else {
    const uint64_t low = bits(), high = bits();
    return static_cast<double>(low ^ high << 21) * 0x1p-53 + 0x1p-54;
  }
}

// Two at a time (Box and Muller).
template <class T, class Bits>
void normal(Bits& bits, T* out, size_t count, T mean, T deviation) {
  for (size_t i = 0; i + 1 < count; i += 2) {
    const double radius = std::sqrt(-2 * std::log(static_cast<double>(uniform<T>(bits))));
    const double angle = 2 * M_PI * static_cast<double>(uniform<T>(bits));
    out[i] = mean + deviation * static_cast<T>(radius * std::sin(angle));
    out[i + 1] = mean + deviation * static_cast<T>(radius * std::cos(angle));
  }
}

// An engine as <random> wants one.
template <class Bits>
struct Standard {
  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return std::numeric_limits<uint32_t>::max(); }
  uint32_t operator()() { return bits(); }
  Bits& bits;
};

}  // namespace devtrace::simulate::curand
