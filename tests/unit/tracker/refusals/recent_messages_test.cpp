#include "tracker/refusals/recent_messages.h"

#include <gtest/gtest.h>

using devtrace::refusals::RecentMessages;

namespace {
using How = RecentMessages::How;
constexpr char kText[] = "Expected all tensors to be on the same device";
}  // namespace

TEST(RecentMessages, ACppErrorIsToldAgainByItsPythonException) {
  RecentMessages recent;
  EXPECT_FALSE(recent.repeats(kText, How::in_python));
  recent.add("Expected all tensors to be on the same device\nException raised from check", false, 0);
  EXPECT_TRUE(recent.repeats(kText, How::in_python));
  EXPECT_TRUE(recent.repeats("Caught RuntimeError in replica 0.\nRuntimeError: " + std::string(kText), How::in_python));
  EXPECT_FALSE(recent.repeats("another text of the same length as that", How::in_python));
}

TEST(RecentMessages, ThePythonExceptionNamesTypesOtherwise) {
  RecentMessages recent;
  recent.add("cannot pin 'CUDAFloatType' only dense CPU tensors; SparseCUDAIntType, CPUByteType, Type", false, 0);
  EXPECT_TRUE(
      recent.repeats("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors; torch.sparse.cuda.IntTensor, "
                     "torch.ByteTensor, Type",
                     How::in_python));
}

// Of PyTorch's messages some have an index as a character of that value: 0 ends the text for Python.
TEST(RecentMessages, PythonIsToldTheTextUpToANul) {
  RecentMessages recent;
  recent.add(std::string_view("a gradient located on device with index '\0' to another", 55), false, 0);
  EXPECT_TRUE(recent.repeats("a gradient located on device with index '", How::in_python));
}

TEST(RecentMessages, TheSameTextOfPythonsIsAnotherRefusalUnlessOneIsHandled) {
  RecentMessages recent;
  recent.add(kText, true, 0);
  EXPECT_FALSE(recent.repeats(kText, How::in_python));
  EXPECT_TRUE(recent.repeats(kText, How::while_handling));
  EXPECT_TRUE(recent.repeats("the step failed: " + std::string(kText), How::in_python));
}

TEST(RecentMessages, OldOnesAreForgotten) {
  RecentMessages recent;
  recent.add(kText, false, 0);
  for (int i = 0; i < 31; ++i) recent.add("error number " + std::to_string(i) + " of many", false, 0);
  EXPECT_TRUE(recent.repeats(kText, How::in_python));
  recent.add("one more error than there is room for", false, 0);
  EXPECT_FALSE(recent.repeats(kText, How::in_python));
}

TEST(RecentMessages, AThrownErrorThatTellsOfAnotherIsNone) {
  RecentMessages recent;
  recent.add(kText, false, 0);
  EXPECT_FALSE(recent.repeats(kText, How::thrown));
  EXPECT_TRUE(recent.repeats("The following operation failed in the TorchScript interpreter.\n" + std::string(kText),
                             How::thrown));
}

TEST(RecentMessages, KnowsWhereTheHandledErrorWasRaised) {
  RecentMessages recent;
  recent.add(kText, false, 7);
  EXPECT_EQ(recent.raised_at(kText), 0u);  // no finding: what is raised while it is handled is looked at by itself
  recent.found(kText);
  EXPECT_EQ(recent.raised_at(kText), 7u);
  EXPECT_EQ(recent.raised_at("another error that nobody looked at"), 0u);
  recent.add(kText, false, 8);  // raised again, elsewhere
  recent.found(kText);
  EXPECT_EQ(recent.raised_at(kText), 8u);
}
