#include "tracker/findings/recent_messages.h"

#include <gtest/gtest.h>

using devtrace::findings::RecentMessages;

namespace {
constexpr char kText[] = "Expected all tensors to be on the same device";
}

TEST(RecentMessages, ACppErrorIsToldAgainByItsPythonException) {
  RecentMessages recent;
  EXPECT_FALSE(recent.repeats(kText, false));
  recent.add(std::string(kText) + "\nException raised from check", false);
  EXPECT_TRUE(recent.repeats(kText, false));
  EXPECT_TRUE(recent.repeats("Caught RuntimeError in replica 0.\nRuntimeError: " + std::string(kText), false));
  EXPECT_FALSE(recent.repeats("another text of the same length as that", false));
}

TEST(RecentMessages, ThePythonExceptionNamesTypesOtherwise) {
  RecentMessages recent;
  recent.add("cannot pin 'CUDAFloatType' only dense CPU tensors; SparseCUDAIntType, CPUByteType, Type", false);
  EXPECT_TRUE(
      recent.repeats("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors; torch.sparse.cuda.IntTensor, "
                     "torch.ByteTensor, Type",
                     false));
}

TEST(RecentMessages, TheSameTextOfPythonsIsAnotherRefusalUnlessOneIsHandled) {
  RecentMessages recent;
  recent.add(kText, true);
  EXPECT_FALSE(recent.repeats(kText, false));
  EXPECT_TRUE(recent.repeats(kText, true));
  EXPECT_TRUE(recent.repeats("the step failed: " + std::string(kText), false));
}

TEST(RecentMessages, OldOnesAreForgotten) {
  RecentMessages recent;
  recent.add(kText, false);
  for (int i = 0; i < 31; ++i) recent.add("error number " + std::to_string(i) + " of many", false);
  EXPECT_TRUE(recent.repeats(kText, false));
  recent.add("one more error than there is room for", false);
  EXPECT_FALSE(recent.repeats(kText, false));
}
