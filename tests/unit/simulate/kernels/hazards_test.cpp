// Which accesses to shared memory race: what orders two of them, and what does no harm.
#include "simulate/kernels/hazards.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace {

using namespace devtrace::simulate::kernels;

class Hazards : public testing::Test {
 protected:
  Hazards() { code_.steps.resize(9); }
  // One step: each lane reads or writes four bytes at its place, `change` is what the store does.
  std::optional<Hazard> step(uint32_t number, uint32_t lane, uint64_t offset, bool writes, bool strong = false,
                             const std::function<void()>& change = {}) {
    hazards_.at(&code_, number);
    hazards_.access(lane, offset, 4, writes, strong);
    if (change) change();
    Hazard found;
    return hazards_.found(&found) ? std::optional(found) : std::nullopt;
  }
  std::optional<Hazard> write(uint32_t number, uint32_t lane, uint64_t offset, uint8_t value = 1, bool strong = false) {
    return step(number, lane, offset, true, strong, [&] { shared_[offset] = value; });
  }
  std::optional<Hazard> read(uint32_t number, uint32_t lane, uint64_t offset, bool strong = false) {
    return step(number, lane, offset, false, strong);
  }
  static Lanes warp(uint32_t number) {
    Lanes lanes;
    for (uint32_t lane = 32 * number; lane < 32 * number + 32; ++lane) lanes.add(lane);
    return lanes;
  }

  uint8_t shared_[256] = {};
  Code code_;
  SharedHazards hazards_{shared_, sizeof shared_};
};

TEST_F(Hazards, AReadOfWhatAnotherThreadWrote) {
  EXPECT_FALSE(write(2, 5, 16));
  EXPECT_FALSE(read(3, 5, 16)) << "its own";
  EXPECT_FALSE(read(3, 6, 20)) << "beside it";
  const auto found = read(4, 40, 16);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->lane, 40u);
  EXPECT_EQ(found->other, 5u);
  EXPECT_EQ(found->other_step, 2u);
  EXPECT_TRUE(found->other_wrote);
  EXPECT_FALSE(found->writes);
}

TEST_F(Hazards, AWriteOverWhatAnotherThreadReads) {
  EXPECT_FALSE(read(1, 40, 16));
  EXPECT_FALSE(read(1, 5, 16)) << "readers do not race";
  const auto found = write(2, 5, 16);
  ASSERT_TRUE(found) << "the one that read before the last one";
  EXPECT_EQ(found->other, 40u);
  EXPECT_FALSE(found->other_wrote);
}

TEST_F(Hazards, OneByteOfTheFourIsEnough) {
  EXPECT_FALSE(write(1, 0, 19));
  EXPECT_TRUE(read(2, 1, 16));
}

TEST_F(Hazards, ABarrierOrdersAll) {
  EXPECT_FALSE(write(1, 0, 16));
  hazards_.barrier();
  EXPECT_FALSE(read(2, 99, 16));
  EXPECT_TRUE(write(3, 0, 16, 2)) << "the next one is missing";
}

TEST_F(Hazards, AWarpsOwnOrdersItsThreadsAlone) {
  EXPECT_FALSE(write(1, 0, 16));
  hazards_.warps(warp(0));
  EXPECT_FALSE(read(2, 31, 16));
  EXPECT_TRUE(read(2, 32, 16)) << "of another warp";
}

TEST_F(Hazards, TheSameValueDoesNoHarm) {
  EXPECT_FALSE(write(1, 0, 16, 7));
  EXPECT_FALSE(write(1, 1, 16, 7));
  EXPECT_TRUE(write(2, 2, 16, 8));
}

TEST_F(Hazards, StrongAccessesDoNotRaceWithEachOther) {
  EXPECT_FALSE(write(1, 0, 16, 1, true));
  EXPECT_FALSE(read(2, 40, 16, true));
  EXPECT_TRUE(read(3, 41, 16)) << "a weak one does";
}

TEST_F(Hazards, AWeakWriteIsNotForgottenForAStrongOneOfItsThread) {
  EXPECT_FALSE(write(1, 0, 16, 0));
  EXPECT_FALSE(write(2, 0, 16, 1, true));
  const auto found = write(2, 40, 16, 2, true);
  ASSERT_TRUE(found) << "the counter was set by one thread and is counted up by all";
  EXPECT_EQ(found->other_step, 1u);
  hazards_.barrier();
  EXPECT_FALSE(write(3, 0, 16, 3, true));
  EXPECT_FALSE(write(3, 40, 16, 4, true));
}

}  // namespace
