// Sobol' sequences: quasirandom points of many dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace devtrace::simulate::curand {

// Of the 20,000 that cuRAND has: as many as there are numbers for in Boost's table of Joe and Kuo's (2008).
extern const unsigned kMostDimensions;

// The direction vectors of a dimension: 32 or 64 words of so many bits, in the lower bits. `scrambled`: times a
// lower triangular matrix of random bits (Matousek, 1998). The matrix is our own, NVIDIA's is not published.
std::vector<uint64_t> direction_vectors(unsigned dimension, unsigned bits, bool scrambled);
// What a scrambled sequence is shifted by. Our own, too.
uint64_t scramble_constant(unsigned dimension, unsigned bits);

class Sobol {
 public:
  Sobol(unsigned bits, bool scrambled) : bits_(bits), scrambled_(scrambled) {}
  // At most kMostDimensions; begins anew.
  void set_dimensions(unsigned count);
  void seek(uint64_t offset) { offset_ = offset; }  // in points
  unsigned dimensions() const { return dimensions_; }
  unsigned bits() const { return bits_; }
  // The next `points` points: `put(i, word)`, with all of a dimension's words behind each other, as cuRAND orders them.
  // In the order of Gray's code, from zero on.
  template <class Put>
  void draw(size_t points, Put put) {
    for (unsigned dimension = 0; dimension < dimensions_; ++dimension) {
      const std::vector<uint64_t> vectors = direction_vectors(dimension, bits_, scrambled_);
      uint64_t word = at(vectors, dimension, offset_);
      for (size_t i = 0; i < points; ++i) {
        put(dimension * points + i, word);
        const auto next = static_cast<size_t>(__builtin_ctzll(~(offset_ + i)));
        if (next < vectors.size()) word ^= vectors[next];
      }
    }
    offset_ += points;
  }

 private:
  uint64_t at(const std::vector<uint64_t>& vectors, unsigned dimension, uint64_t index) const;

  unsigned bits_, dimensions_ = 1;
  bool scrambled_;
  uint64_t offset_ = 0;
};

}  // namespace devtrace::simulate::curand
