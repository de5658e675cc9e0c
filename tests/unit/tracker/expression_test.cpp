#include "tracker/evidence/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using devtrace::evidence::paths_in;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {
std::vector<std::string> names(const char* source) {
  std::vector<std::string> written;
  for (const auto& path : paths_in(source)) written.push_back(to_string(path));
  return written;
}
}  // namespace

TEST(Expression, ArgumentsOfACall) {
  EXPECT_THAT(names("torch.cat((presents, kv_cache), dim=0)"), ElementsAre("torch", "presents", "kv_cache"));
}
TEST(Expression, KeywordArgumentsNamesAreLeftOutTheirValuesAreNot) {
  EXPECT_THAT(names("f(input=x, weight = self.weight, eq=a == b)"), ElementsAre("x", "self.weight", "a", "b"));
}
TEST(Expression, AMethodMentionsWhatItIsCalledOn) {
  EXPECT_THAT(names("past[0].view(-1).sum() + b"), ElementsAre("past[0]", "b"));
}
TEST(Expression, LiteralSubscriptsAreStepsOthersAreScanned) {
  EXPECT_THAT(names("batch['ids'][0] + cache[layer][:, pos] - x[-1]"),
              ElementsAre("batch[\"ids\"][0]", "cache", "layer", "pos", "x[-1]"));
}
TEST(Expression, StarsAndEachOnlyOnce) {
  EXPECT_THAT(names("op(*args, **kwargs, a=args)"), ElementsAre("args", "kwargs"));
}
TEST(Expression, StringsCommentsNumbersAndKeywordsAreNoNames) {
  EXPECT_THAT(names("f('a b', \"c\\\"d\", r'e', '''g\nh''', 1.5e3, 0x1f, not x if y else None) # z"),
              ElementsAre("x", "y"));
}
TEST(Expression, AttributesOfResultsAreNoNames) {
  EXPECT_THAT(names("(a + b).sum().foo[c]"), ElementsAre("a", "b", "c"));
}
TEST(Expression, NonAsciiNames) {
  EXPECT_THAT(names("größe + 变量"), ElementsAre("größe", "变量"));
}
TEST(Expression, AnAssignmentsTargetIsNoOperand) {
  EXPECT_THAT(names("x = a @ b"), ElementsAre("a", "b"));
}
TEST(Expression, BrokenTextEnds) {
  EXPECT_THAT(names(""), IsEmpty());
  EXPECT_THAT(names("f('never closed, x"), IsEmpty());
  EXPECT_THAT(names("a["), ElementsAre("a"));
  EXPECT_THAT(names("a[']"), ElementsAre("a"));
  EXPECT_THAT(names("a.\\"), ElementsAre("a."));
}
