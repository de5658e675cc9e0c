#include "tracker/stacks/known_frames.h"

#include <gtest/gtest.h>

using devtrace::stacks::KnownFrames;

TEST(KnownFrames, AFramesPlaceIsAlwaysTheSame) {
  KnownFrames known;
  known.at(0x7000) = {0x7000, 0x1234, 99};
  EXPECT_EQ(known.at(0x7000).key, 99u);
  EXPECT_EQ(&known.at(0x7000), &known.at(0x7000));
}

TEST(KnownFrames, TheDeathOfACodeObjectEndsAll) {
  KnownFrames known;
  known.forget_the_dead(3);
  for (uintptr_t frame = 0x7000; frame < 0x9000; frame += 80) known.at(frame) = {frame, 0x1234, 99};
  known.forget_the_dead(3);
  EXPECT_EQ(known.at(0x7000 + 80 * 50).frame, 0x7000u + 80 * 50);
  known.forget_the_dead(4);
  for (uintptr_t frame = 0x7000; frame < 0x9000; frame += 80) EXPECT_EQ(known.at(frame).frame, 0u);
}
