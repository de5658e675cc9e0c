#include "tracker/stacks/last_stack.h"

#include <gtest/gtest.h>

#include <vector>

using namespace devtrace;
using stacks::LastStack;

namespace {

struct Frame {
  uintptr_t previous, instruction;
};

python::Layout layout() {
  python::Layout layout{};
  layout.frame_previous = offsetof(Frame, previous);
  layout.frame_instruction = offsetof(Frame, instruction);
  layout.instruction = python::Instruction::pointer;
  return layout;
}

// The last is the innermost.
struct Stack {
  explicit Stack(size_t depth) : frames(depth) {
    for (size_t i = 0; i < depth; ++i) frames[i] = {i == 0 ? 0 : address(i - 1), 1000 + i};
  }
  uintptr_t address(size_t i) const { return reinterpret_cast<uintptr_t>(&frames[i]); }
  uintptr_t top() const { return address(frames.size() - 1); }

  std::vector<Frame> frames;
};

}  // namespace

TEST(LastStack, IsFoundWhileEveryFrameIsWhereItWas) {
  const Stack stack(5);
  LastStack last;
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u);
  last.keep(layout(), stack.top(), 0, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 7u);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 7u);
}

TEST(LastStack, AnyFrameThatHasMovedOnIsSeen) {
  for (size_t moved = 0; moved < 5; ++moved) {
    Stack stack(5);
    LastStack last;
    last.keep(layout(), stack.top(), 0, 7);
    ++stack.frames[moved].instruction;
    EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u) << moved;
  }
}

TEST(LastStack, ADeeperAndAShallowerStackAreOthers) {
  Stack stack(5);
  LastStack last;
  last.keep(layout(), stack.address(3), 0, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u);
  EXPECT_EQ(last.find(layout(), stack.address(2), 0), 0u);
  EXPECT_EQ(last.find(layout(), 0, 0), 0u);
  // The outermost frame got a caller, as a coroutine's does that is awaited by another.
  const Stack outer(1);
  stack.frames[0].previous = outer.top();
  EXPECT_EQ(last.find(layout(), stack.address(3), 0), 0u);
}

TEST(LastStack, TheDeathOfACodeObjectEndsIt) {
  const Stack stack(5);
  LastStack last;
  last.keep(layout(), stack.top(), 3, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 4), 0u);
  last.keep(layout(), stack.top(), 4, 8);
  EXPECT_EQ(last.find(layout(), stack.top(), 4), 8u);
}

TEST(LastStack, AVeryDeepOneIsNotKept) {
  const Stack shallow(5), deep(5000);
  LastStack last;
  last.keep(layout(), shallow.top(), 0, 7);
  last.keep(layout(), deep.top(), 0, 8);
  EXPECT_EQ(last.find(layout(), deep.top(), 0), 0u);
  EXPECT_EQ(last.find(layout(), shallow.top(), 0), 0u);
}

TEST(LastStack, OnlyWhereAnInstructionIsOneCodeObjects) {
  python::Layout one = layout();
  EXPECT_TRUE(LastStack::knows(one));
  one.frame_copy = 80;
  EXPECT_FALSE(LastStack::knows(one));
  one = layout();
  one.instruction = python::Instruction::unit_index;
  EXPECT_FALSE(LastStack::knows(one));
}
