#include "simulate/curand/sobol.h"

#include <bit>
#include <boost/random/sobol.hpp>
#include <random>

namespace devtrace::simulate::curand {

using Table = boost::random::default_sobol_table;

const unsigned kMostDimensions = Table::max_dimension;

namespace {

// Bratley and Fox (1988), section 2: the first ones are given, the others follow from the polynomial.
std::vector<uint64_t> plain(unsigned dimension, unsigned bits) {
  std::vector<uint64_t> m(bits, 1);
  if (dimension > 0) {
    const unsigned polynomial = Table::polynomial(dimension - 1);
    const auto degree = static_cast<unsigned>(std::bit_width(polynomial)) - 1;
    for (unsigned j = 0; j < bits; ++j) {
      if (j < degree) {
        m[j] = Table::minit(dimension - 1, j);
        continue;
      }
      m[j] = m[j - degree];
      for (unsigned k = 1; k <= degree; ++k)
        if (polynomial >> (degree - k) & 1) m[j] ^= m[j - k] << k;
    }
  }
  for (unsigned j = 0; j < bits; ++j) m[j] <<= bits - 1 - j;
  return m;
}

}  // namespace

std::vector<uint64_t> direction_vectors(unsigned dimension, unsigned bits, bool scrambled) {
  std::vector<uint64_t> vectors = plain(dimension, bits);
  if (!scrambled) return vectors;
  std::mt19937_64 random(dimension);
  // Row by row of the result's bits, the highest first: each is the sum of that bit and of some above it.
  std::vector<uint64_t> rows(bits);
  for (unsigned row = 0; row < bits; ++row) {
    const uint64_t own = uint64_t{1} << (bits - 1 - row);
    const uint64_t above = row ? ~uint64_t{0} << (bits - row) : 0;
    rows[row] = own | (random() & above);
  }
  for (uint64_t& vector : vectors) {
    uint64_t mixed = 0;
    for (unsigned row = 0; row < bits; ++row)
      mixed |= uint64_t{std::popcount(vector & rows[row]) % 2 != 0} << (bits - 1 - row);
    vector = mixed;
  }
  return vectors;
}

uint64_t scramble_constant(unsigned dimension, unsigned bits) {
  std::mt19937_64 random(~uint64_t{dimension});
  return random() >> (64 - bits);
}

void Sobol::set_dimensions(unsigned count) {
  dimensions_ = count;
  offset_ = 0;
}

uint64_t Sobol::at(const std::vector<uint64_t>& vectors, unsigned dimension, uint64_t index) const {
  uint64_t word = scrambled_ ? scramble_constant(dimension, bits_) : 0;
  const uint64_t gray = index ^ index >> 1;
  for (unsigned j = 0; j < bits_; ++j)
    if (gray >> j & 1) word ^= vectors[j];
  return word;
}

}  // namespace devtrace::simulate::curand
