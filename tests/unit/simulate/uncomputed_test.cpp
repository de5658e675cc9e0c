// Ranges of memory that nobody computed; kernels of an older PyTorch.
#include "simulate/values/uncomputed.h"

#include <gtest/gtest.h>

#include "simulate/values/functions.h"

// Ranges of memory that nobody computed.
namespace {

using devtrace::simulate::values::kNeverWritten;
using devtrace::simulate::values::UncomputedMemory;

constexpr int kOne = 1, kOther = 2;

class Uncomputed : public testing::Test {
 protected:
  ~Uncomputed() override { memory_.clear(0, 1 << 20); }
  UncomputedMemory& memory_ = devtrace::simulate::values::uncomputed();
};

TEST_F(Uncomputed, WhatIsMarkedIsFoundByAnyByteOfIt) {
  EXPECT_FALSE(memory_.any);
  memory_.mark(100, 50, kOne);
  EXPECT_TRUE(memory_.any);
  EXPECT_EQ(memory_.find(0, 100), 0);
  EXPECT_EQ(memory_.find(0, 101), kOne);
  EXPECT_EQ(memory_.find(149, 1), kOne);
  EXPECT_EQ(memory_.find(150, 1000), 0);
  EXPECT_EQ(memory_.find(120, 0), 0);
}

TEST_F(Uncomputed, ClearingLeavesWhatLiesAround) {
  memory_.mark(100, 50, kOne);
  memory_.clear(110, 10);
  EXPECT_EQ(memory_.find(100, 10), kOne);
  EXPECT_EQ(memory_.find(110, 10), 0);
  EXPECT_EQ(memory_.find(120, 1), kOne);
  memory_.clear(0, 115);
  memory_.clear(120, 30);
  EXPECT_FALSE(memory_.any) << "nothing is left, and nothing costs anything";
}

TEST_F(Uncomputed, TheLastWriterCounts) {
  memory_.mark(100, 50, kOne);
  memory_.mark(120, 50, kOther);
  EXPECT_EQ(memory_.find(119, 1), kOne);
  EXPECT_EQ(memory_.find(120, 1), kOther);
  EXPECT_EQ(memory_.find(169, 1), kOther);
  memory_.mark(0, 1000, kOne);
  EXPECT_EQ(memory_.find(130, 1), kOne);
}

TEST_F(Uncomputed, ACopyTakesMarksAlongAndClears) {
  memory_.mark(100, 10, kOne);
  memory_.mark(120, 10, kOther);
  memory_.mark(1000, 100, kOther);
  memory_.copy(1000, 105, 20, false);
  EXPECT_EQ(memory_.find(1000, 5), kOne);
  EXPECT_EQ(memory_.find(1005, 10), 0);
  EXPECT_EQ(memory_.find(1015, 5), kOther);
  EXPECT_EQ(memory_.find(1020, 1), kOther) << "behind what was copied";
  memory_.copy(100, 103, 20, false);  // over itself
  EXPECT_EQ(memory_.find(106, 1), kOne);
  EXPECT_EQ(memory_.find(107, 10), 0);
  EXPECT_EQ(memory_.find(117, 3), kOther);
}

TEST_F(Uncomputed, WhatWasNeverWrittenIsNobodysToCompute) {
  memory_.mark(100, 20, kNeverWritten);
  memory_.mark(110, 5, kOne);
  EXPECT_EQ(memory_.find(100, 20), kOne) << "only what somebody should have written is told where the host reads it";
  EXPECT_EQ(memory_.part(100, 20).begin, 110u);
  EXPECT_TRUE(memory_.never_written(105, 5));
  EXPECT_FALSE(memory_.never_written(110, 5));
  EXPECT_FALSE(memory_.never_written(108, 4)) << "a part of it is padding, perhaps";
  memory_.mark(120, 20, kNeverWritten);
  EXPECT_TRUE(memory_.never_written(116, 8)) << "over two marks";
  EXPECT_FALSE(memory_.never_written(136, 8));
  memory_.copy(1000, 100, 20, false);
  memory_.copy(2000, 100, 20, true);
  EXPECT_TRUE(memory_.never_written(1000, 1));
  EXPECT_FALSE(memory_.never_written(2000, 20)) << "the host writes without a call";
  EXPECT_EQ(memory_.find(2000, 20), kOne);
}

}  // namespace

namespace devtrace::simulate::values {
namespace {

// That kernels are kept, the pairs of `make matrix` with a PyTorch before 2.9 show.
TEST(OlderPytorch, WithoutPytorchNoKernelIsKept) {
  EXPECT_FALSE(keep_kernel("aten::add", "Tensor", 1, 2));
}

}  // namespace
}  // namespace devtrace::simulate::values
