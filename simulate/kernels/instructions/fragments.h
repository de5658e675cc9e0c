// What mma and wmma share: a warp's numbers in parts of registers, and their product.
#pragma once

#include <cstdint>

#include "binary/ptx/types.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

// Calls f(first lane) for each warp that is here as a whole; what is not is an error of the program's.
template <class F>
void whole_warps(Machine& m, F f) {
  for (uint32_t first = 0; first < m.lane_count; first += 32) {
    const uint32_t here = m.lanes->in_warp(first / 32);
    if (!here) continue;
    if (here != UINT32_MAX) return m.fail(FaultKind::trap, first, "a matrix of a warp whose threads are not all there");
    f(first);
  }
}

// Of an element; 0: no type that matrices have.
uint32_t bits_of(ptx::Type type);
// Elements in a register, which has 32 bits, or 64 where the element has.
inline uint32_t in_register(ptx::Type type) {
  return bits_of(type) >= 32 ? 1 : 32 / bits_of(type);
}
inline uint8_t* register_of(const Machine& m, Slot slot, ptx::Type type, uint32_t lane) {
  return m.at<uint8_t>(slot) + size_t{bits_of(type) == 64 ? 8u : 4u} * lane;
}
// The i-th one of a register, or in memory.
double element(ptx::Type type, const uint8_t* at, uint32_t i);
void set_element(ptx::Type type, uint8_t* at, uint32_t i, double value, bool saturate);

// sums += a * b
struct Product {
  static constexpr uint32_t kMostRows = 32, kMostColumns = 32, kMostDepth = 256;
  uint32_t rows = 0, columns = 0, depth = 0;
  bool exclusive = false;  // of bits: counts where they differ, not where both are set
  double a[kMostRows][kMostDepth], b[kMostDepth][kMostColumns], sums[kMostRows][kMostColumns];

  void compute();
};

}  // namespace devtrace::simulate::kernels
