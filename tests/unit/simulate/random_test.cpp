// cuRAND's stand-in: the generators against numbers that were published, the distributions by their moments.
#include <gtest/gtest.h>

#include <vector>

#include "simulate/curand/distributions.h"
#include "simulate/curand/engines.h"

namespace {

using namespace devtrace::simulate::curand;
using Block = std::array<uint32_t, 4>;

// The known answers that come with Random123, the authors' library.
TEST(Random, PhiloxIsThePublishedOne) {
  EXPECT_EQ(philox_block({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_block({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  Philox philox;
  EXPECT_EQ((Block{philox(), philox(), philox(), philox()}), philox_block({0, 0, 0, 0}, {0, 0}));
  EXPECT_EQ(philox(), philox_block({1, 0, 0, 0}, {0, 0})[0]);
}

// From the state in Marsaglia's article.
TEST(Random, XorwowIsThePublishedOne) {
  Xorwow xorwow(Xorwow::State{{123456789, 362436069, 521288629, 88675123, 5783321}, 6615241});
  EXPECT_EQ(xorwow(), 246875399u);
  EXPECT_EQ(xorwow(), 3690007200u);
  EXPECT_EQ(xorwow(), 1264581005u);
}

// From the state that L'Ecuyer's own streams begin with.
TEST(Random, Mrg32k3aIsThePublishedOne) {
  Mrg mrg(Mrg::State{{12345, 12345, 12345}, {12345, 12345, 12345}});
  for (const double published : {0.1270111220, 0.3185275653, 0.3091860155, 0.8258468629, 0.2216299157})
    EXPECT_NEAR(static_cast<double>(mrg.draw()) / 4294967088.0, published, 1e-9);
}

template <class Engine>
void expect_skip() {
  for (const uint64_t draws : {0u, 1u, 2u, 3u, 5u, 1000u, 123457u}) {
    Engine stepped(7), skipped(7);
    for (uint64_t i = 0; i < draws; ++i) stepped();
    skipped.skip(draws);
    EXPECT_EQ(stepped(), skipped()) << draws;
  }
}
TEST(Random, SkippingIsDrawing) {
  expect_skip<Philox>();
  expect_skip<Xorwow>();
  expect_skip<Mersenne>();
  expect_skip<Mrg>();
  Xorwow twice(7), once(7);
  twice.skip(uint64_t{1} << 62);
  twice.skip(uint64_t{1} << 62);
  once.skip(uint64_t{1} << 63);
  EXPECT_EQ(twice(), once());
}

TEST(Random, SeedsDiffer) {
  EXPECT_NE(Philox(1)(), Philox(2)());
  EXPECT_NE(Xorwow(1)(), Xorwow(2)());
  EXPECT_NE(Mersenne(1)(), Mersenne(2)());
  EXPECT_NE(Mrg(1)(), Mrg(2)());
}

template <class T>
void expect_moments() {
  constexpr size_t kCount = 200000;
  Xorwow bits(3);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double u = static_cast<double>(uniform<T>(bits));
    ASSERT_TRUE(u > 0 && u <= 1);
    sum += u, squares += u * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.004);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.004);
  std::vector<T> normals(kCount);
  normal<T>(bits, normals.data(), kCount, 10, 2);
  sum = squares = 0;
  for (const T n : normals) sum += static_cast<double>(n), squares += static_cast<double>((n - 10) * (n - 10));
  EXPECT_NEAR(sum / kCount, 10, 0.03);
  EXPECT_NEAR(squares / kCount, 4, 0.08);
}
TEST(Random, MomentsOfUniformAndNormal) {
  expect_moments<float>();
  expect_moments<double>();
}

}  // namespace
