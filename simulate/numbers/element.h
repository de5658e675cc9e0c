// Types of numbers as CUDA's libraries name them, and the types in which they are computed here.
#pragma once

#include <library_types.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace devtrace::simulate::numbers {

using Complex32 = std::complex<float>;
using Complex64 = std::complex<double>;

// Bytes of one; 0: not one of those that are computed.
size_t bytes_of(cudaDataType type);
inline bool is_known(cudaDataType type) {
  return bytes_of(type) > 0;
}

// In what a type is computed: half precision in float, whole numbers in double, which holds them exactly.
enum class Precision { real32, real64, complex32, complex64 };
Precision precision_of(cudaDataType type);
// That holds numbers of both.
inline Precision wider(Precision a, Precision b) {
  return static_cast<Precision>(static_cast<int>(a) | static_cast<int>(b));
}

// f(S()), S being what numbers of the kind are computed in.
template <class F>
void in_precision(Precision kind, F f) {
  switch (kind) {
    case Precision::real32:
      return f(float());
    case Precision::real64:
      return f(double());
    case Precision::complex32:
      return f(Complex32());
    case Precision::complex64:
      return f(Complex64());
  }
}

// A run of numbers at equal distances, in elements, in memory that is reached; converted.
template <class S>
void get(cudaDataType type, const void* from, int64_t distance, int64_t count, S* to);
// Rounded to the nearest; whole numbers are cut to what the type holds.
template <class S>
void put(cudaDataType type, void* to, int64_t distance, int64_t count, const S* from);

inline const uint8_t* at(cudaDataType type, const void* base, int64_t index) {
  return static_cast<const uint8_t*>(base) + index * static_cast<int64_t>(bytes_of(type));
}
inline uint8_t* at(cudaDataType type, void* base, int64_t index) {
  return static_cast<uint8_t*>(base) + index * static_cast<int64_t>(bytes_of(type));
}

template <class S>
constexpr bool kIsComplex = !std::is_floating_point_v<S>;
template <class S>
S conjugate(S x) {
  if constexpr (kIsComplex<S>)
    return std::conj(x);
  else
    return x;
}

}  // namespace devtrace::simulate::numbers
