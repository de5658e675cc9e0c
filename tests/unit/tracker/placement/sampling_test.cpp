#include "tracker/placement/sampling.h"

#include <gtest/gtest.h>

namespace devtrace::placement {
namespace {

// A program that asks every hundredth of a second, and whose samples cost `cost`; how many were taken.
int samples(Sampling& sampling, double begin, double end, double cost) {
  int taken = 0;
  for (double now = begin; now < end; now += 0.01) {
    if (!sampling.due(now, false)) continue;
    sampling.took(now, cost);
    ++taken;
  }
  return taken;
}

TEST(Sampling, TheFirstIsTakenWhateverItMayCost) {
  EXPECT_TRUE(Sampling().due(0, true));
  EXPECT_FALSE(Sampling().due(0.5, false)) << "nothing much has happened yet";
}

TEST(Sampling, TakesASmallPartOfTheTime) {
  for (const double cost : {0.001, 0.02, 0.1, 1.0}) {
    Sampling sampling;
    const double spent = samples(sampling, 2, 3600, cost) * cost;
    EXPECT_LE(spent, std::max(3600 * Sampling::kShare, Sampling::kAllowance)) << cost;
    EXPECT_GE(spent, cost);
  }
}

TEST(Sampling, GrowsRareWhenItIsCheap) {
  Sampling sampling;
  samples(sampling, 0, 10, 1e-6);
  EXPECT_LE(samples(sampling, 10, 86400, 1e-6), 86400 / Sampling::kMostGap + 40);
  EXPECT_GE(samples(sampling, 86400, 2 * 86400, 1e-6), 86400 / Sampling::kMostGap - 40);
}

TEST(Sampling, AShortProgramIsNotMissed) {
  Sampling sampling;
  sampling.took(1, 0.02);
  EXPECT_FALSE(sampling.due(1.01, false));
  EXPECT_TRUE(sampling.due(1.01, true));
  sampling.took(1.01, 0.02);
  sampling.took(1.02, 0.02);
  EXPECT_FALSE(sampling.due(1.03, true)) << "it has had its share";
  EXPECT_TRUE(sampling.due(20, false)) << "and is owed one";
}

}  // namespace
}  // namespace devtrace::placement
