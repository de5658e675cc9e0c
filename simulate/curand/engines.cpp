#include "simulate/curand/engines.h"

#include <vector>

namespace devtrace::simulate::curand {
namespace {

constexpr uint32_t kWeyl = 362437;

// A step of XORWOW is linear in the bits of x: column j is what bit j alone becomes.
using Bits = std::array<uint32_t, 5>;
using Matrix = std::vector<Bits>;
constexpr size_t kBits = 160;

Bits step(const Bits& x) {
  const uint32_t t = x[0] ^ (x[0] >> 2);
  return {x[1], x[2], x[3], x[4], x[4] ^ (x[4] << 4) ^ t ^ (t << 1)};
}

Bits times(const Matrix& m, const Bits& x) {
  Bits sum = {};
  for (size_t j = 0; j < kBits; ++j)
    if (x[j / 32] >> (j % 32) & 1)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] ^= m[j][i];
  return sum;
}

Matrix one_step() {
  Matrix m(kBits);
  for (size_t j = 0; j < kBits; ++j) {
    Bits alone = {};
    alone[j / 32] = 1u << (j % 32);
    m[j] = step(alone);
  }
  return m;
}

Matrix twice(const Matrix& m) {
  Matrix result(kBits);
  for (size_t j = 0; j < kBits; ++j) result[j] = times(m, m[j]);
  return result;
}

// SplitMix64 (Steele et al., 2014).
uint64_t mix(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The two recurrences of MRG32k3a: each word is a sum of products of the three before it, modulo a prime.
constexpr uint64_t kFirst = 4294967087, kSecond = 4294944443;
using Row = Mrg::Words;
using Steps = std::array<Row, 3>;
constexpr Steps kFirstStep = {{{0, 1, 0}, {0, 0, 1}, {kFirst - 810728, 1403580, 0}}};
constexpr Steps kSecondStep = {{{0, 1, 0}, {0, 0, 1}, {kSecond - 1370589, 0, 527612}}};

Row times(const Steps& m, const Row& x, uint64_t prime) {
  Row sum = {};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) sum[i] = (sum[i] + m[i][j] * x[j] % prime) % prime;
  return sum;
}

Steps squared(const Steps& m, uint64_t prime) {
  Steps result = {};
  for (size_t j = 0; j < 3; ++j) {
    const Row column = times(m, {m[0][j], m[1][j], m[2][j]}, prime);
    for (size_t i = 0; i < 3; ++i) result[i][j] = column[i];
  }
  return result;
}

void skip_in(Row* x, Steps power, uint64_t prime, uint64_t draws) {
  for (; draws; draws >>= 1) {
    if (draws & 1) *x = times(power, *x, prime);
    power = squared(power, prime);
  }
}

}  // namespace

Mrg::Mrg(uint64_t seed) {
  for (uint64_t& word : state_.first) word = mix(&seed) % (kFirst - 1) + 1;  // all zeros would stay zeros
  for (uint64_t& word : state_.second) word = mix(&seed) % (kSecond - 1) + 1;
}

uint64_t Mrg::draw() {
  state_ = {times(kFirstStep, state_.first, kFirst), times(kSecondStep, state_.second, kSecond)};
  return (state_.first[2] + kFirst - state_.second[2] % kFirst) % kFirst;
}

uint32_t Mrg::operator()() {
  return static_cast<uint32_t>((draw() << 32) / kFirst);
}

void Mrg::skip(uint64_t draws) {
  skip_in(&state_.first, kFirstStep, kFirst, draws);
  skip_in(&state_.second, kSecondStep, kSecond, draws);
}

std::array<uint32_t, 4> philox_block(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c[0], b = uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return c;
}

uint32_t Philox::operator()() {
  if (const uint64_t number = position_ / 4; number != held_) {
    held_ = number;
    block_ = philox_block({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                          {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }
  return block_[position_++ % 4];
}

Xorwow::Xorwow(uint64_t seed) {
  for (uint32_t& word : state_.x) word = static_cast<uint32_t>(mix(&seed));
  state_.d = static_cast<uint32_t>(mix(&seed));
  state_.x[0] |= 1;  // all zeros would stay zeros
}

uint32_t Xorwow::operator()() {
  state_.x = step(state_.x);
  state_.d += kWeyl;
  return state_.d + state_.x[4];
}

void Xorwow::skip(uint64_t draws) {
  state_.d += static_cast<uint32_t>(draws) * kWeyl;
  Matrix power = one_step();
  for (; draws; draws >>= 1) {
    if (draws & 1) state_.x = times(power, state_.x);
    if (draws > 1) power = twice(power);
  }
}

}  // namespace devtrace::simulate::curand
