// Generators of random bits, as they are published.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <variant>

namespace devtrace::simulate::curand {

// Philox4x32-10 (Salmon et al., 2011): the block of a counter under a key.
std::array<uint32_t, 4> philox_block(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Philox {
 public:
  explicit Philox(uint64_t seed = 0) : seed_(seed) {}
  uint32_t operator()();
  void skip(uint64_t draws) { position_ += draws; }

 private:
  uint64_t seed_, position_ = 0, held_ = UINT64_MAX;  // number of the block that is at hand
  std::array<uint32_t, 4> block_ = {};
};

// XORWOW (Marsaglia, 2003). How a seed becomes a state is our own.
class Xorwow {
 public:
  struct State {
    std::array<uint32_t, 5> x;
    uint32_t d;
  };
  explicit Xorwow(uint64_t seed = 0);
  explicit Xorwow(const State& state) : state_(state) {}
  uint32_t operator()();
  void skip(uint64_t draws);

 private:
  State state_;
};

// MRG32k3a (L'Ecuyer, 1999), stretched to 32 bits. How a seed becomes a state is our own.
class Mrg {
 public:
  using Words = std::array<uint64_t, 3>;  // the oldest first
  struct State {
    Words first, second;
  };
  explicit Mrg(uint64_t seed = 0);
  explicit Mrg(const State& state) : state_(state) {}
  uint32_t operator()();
  // As it is published: in [0, 4294967087).
  uint64_t draw();
  void skip(uint64_t draws);

 private:
  State state_;
};

class Mersenne : public std::mt19937 {
 public:
  explicit Mersenne(uint64_t seed = 0) : std::mt19937(static_cast<uint32_t>(seed ^ seed >> 32)) {}
  uint32_t operator()() { return static_cast<uint32_t>(std::mt19937::operator()()); }
  void skip(uint64_t draws) { discard(draws); }
};

using Engine = std::variant<Xorwow, Philox, Mersenne, Mrg>;

}  // namespace devtrace::simulate::curand
