#include "simulate/numbers/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <eigen3/Eigen/Core>
#include <limits>

namespace devtrace::simulate::numbers {
namespace {

// f(T()): as they lie in memory.
template <class F>
bool as_stored(cudaDataType type, F f) {
  switch (type) {
    case CUDA_R_32F:
      return f(float()), true;
    case CUDA_R_64F:
      return f(double()), true;
    case CUDA_C_32F:
      return f(Complex32()), true;
    case CUDA_C_64F:
      return f(Complex64()), true;
    case CUDA_R_16F:
      return f(Eigen::half()), true;
    case CUDA_R_16BF:
      return f(Eigen::bfloat16()), true;
    case CUDA_R_8I:
      return f(int8_t()), true;
    case CUDA_R_8U:
      return f(uint8_t()), true;
    case CUDA_R_32I:
      return f(int32_t()), true;
    default:
      return false;
  }
}

template <class S, class T>
S from_stored(T x) {
  if constexpr (std::is_same_v<T, Complex32> || std::is_same_v<T, Complex64>) {
    using Real = typename T::value_type;
    if constexpr (kIsComplex<S>)
      return S(x);
    else
      return static_cast<S>(static_cast<Real>(x.real()));
  } else if constexpr (std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>) {
    return S(static_cast<float>(x));
  } else if constexpr (kIsComplex<S>) {
    return S(static_cast<typename S::value_type>(x));
  } else {
    return static_cast<S>(x);
  }
}

template <class T, class S>
T to_stored(S x) {
  if constexpr (std::is_same_v<T, Complex32> || std::is_same_v<T, Complex64>) {
    if constexpr (kIsComplex<S>)
      return T(x);
    else
      return T(static_cast<typename T::value_type>(x));
  } else if constexpr (kIsComplex<S>) {
    return to_stored<T>(x.real());
  } else if constexpr (std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>) {
    return T(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<T>) {
    const double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    return static_cast<T>(std::clamp(std::nearbyint(static_cast<double>(x)), least, most));
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace

size_t bytes_of(cudaDataType type) {
  size_t bytes = 0;
  as_stored(type, [&](auto x) { bytes = sizeof x; });
  return bytes;
}

Precision precision_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F:
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_32I:
      return Precision::real64;
    case CUDA_C_32F:
      return Precision::complex32;
    case CUDA_C_64F:
      return Precision::complex64;
    default:
      return Precision::real32;
  }
}

// Addresses need not be aligned: who gives them is a program that is tried.
template <class S>
void get(cudaDataType type, const void* from, int64_t distance, int64_t count, S* to) {
  as_stored(type, [&](auto stored) {
    const auto* bytes = static_cast<const uint8_t*>(from);
    const int64_t step = distance * static_cast<int64_t>(sizeof stored);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(static_cast<void*>(&stored), bytes + i * step, sizeof stored);
      to[i] = from_stored<S>(stored);
    }
  });
}

template <class S>
void put(cudaDataType type, void* to, int64_t distance, int64_t count, const S* from) {
  as_stored(type, [&](auto stored) {
    using T = decltype(stored);
    auto* bytes = static_cast<uint8_t*>(to);
    const int64_t step = distance * static_cast<int64_t>(sizeof stored);
    for (int64_t i = 0; i < count; ++i) {
      stored = to_stored<T>(from[i]);
      std::memcpy(bytes + i * step, static_cast<const void*>(&stored), sizeof stored);
    }
  });
}

#define FOR_PRECISION(S)                                                 \
  template void get<S>(cudaDataType, const void*, int64_t, int64_t, S*); \
  template void put<S>(cudaDataType, void*, int64_t, int64_t, const S*);
FOR_PRECISION(float)
FOR_PRECISION(double)
FOR_PRECISION(Complex32)
FOR_PRECISION(Complex64)
#undef FOR_PRECISION

}  // namespace devtrace::simulate::numbers
