#include "tracker/interface/collective.h"

#include <gtest/gtest.h>

using devtrace::agree;
using devtrace::Collective;
using enum devtrace::CollectiveKind;

namespace {
constexpr unsigned kInt64 = 4, kFloat32 = 7, kFloat64 = 8;
}

TEST(CollectivesAgree, OfReductionsAllThatIsAddedUp) {
  const Collective one = {all_reduce, 4, kFloat32};
  EXPECT_TRUE(agree(one, one));
  EXPECT_FALSE(agree(one, {reduce_scatter, 4, kFloat32}));
  EXPECT_FALSE(agree(one, {all_reduce, 5, kFloat32}));
  EXPECT_FALSE(agree(one, {all_reduce, 4, kFloat32, 2}));
  EXPECT_FALSE(agree({all_reduce, 4, kFloat64}, {all_reduce, 4, kInt64}));
}

TEST(CollectivesAgree, OfWhatOnlyMovesBytesTheseAlone) {
  EXPECT_TRUE(agree({all_gather, 4, kFloat32}, {all_gather, 2, kFloat64}));
  EXPECT_FALSE(agree({all_gather, 4, kFloat32}, {all_gather, 4, kFloat64}));
}

TEST(CollectivesAgree, OfThoseWithARootThat) {
  EXPECT_FALSE(agree({broadcast, 4, kFloat32, 0, 0}, {broadcast, 4, kFloat32, 0, 1}));
  EXPECT_TRUE(agree({all_reduce, 4, kFloat32, 0, 0}, {all_reduce, 4, kFloat32, 0, 1}));
}

TEST(CollectivesAgree, OfGroupsNotTheOrderWithin) {
  EXPECT_TRUE(agree({.kind = group, .count = 2, .digest = 7}, {.kind = group, .count = 2, .digest = 7}));
  EXPECT_FALSE(agree({.kind = group, .count = 2, .digest = 7}, {.kind = group, .count = 2, .digest = 8}));
  EXPECT_FALSE(agree({.kind = group, .count = 2, .digest = 7}, {.kind = group, .count = 3, .digest = 7}));
}
