#include "attach/debug_offsets.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace devtrace::attach;

namespace {

// As CPython 3.14 describes itself.
std::vector<uint64_t> description(uint64_t minor, size_t support) {
  std::vector<uint64_t> words(DebugOffsets::kMostWords, 8);
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = uint64_t{3} << 24 | minor << 16 | 0x08f0;
  words[3] = 400'000;  // the runtime's size
  words[4] = 904;
  words[5] = 952;
  words[6] = 300'000;  // an interpreter's
  words[10] = 7352;
  words[22] = 900;  // a thread's
  const uint64_t last[] = {24, 320, 8000, 0, 4, 512};
  std::memcpy(&words[support], last, sizeof last);
  return words;
}

TEST(DebugOffsets, AreThoseOfTheVersion) {
  for (const auto& [minor, support] : {std::pair<uint64_t, size_t>{14, 89}, {15, 105}}) {
    const auto offsets = parse_debug_offsets(description(minor, support));
    ASSERT_TRUE(offsets) << minor;
    EXPECT_EQ(offsets->finalizing, 904u);
    EXPECT_EQ(offsets->interpreters_head, 952u);
    EXPECT_EQ(offsets->threads_main, 7352u);
    EXPECT_EQ(offsets->remote_debugging_enabled, 8000u);
    EXPECT_EQ(offsets->eval_breaker, 24u);
    EXPECT_EQ(offsets->pending_call, 320u);
    EXPECT_EQ(offsets->script_path, 324u);
  }
}

TEST(DebugOffsets, OfAnotherVersionAreNotGuessed) {
  EXPECT_FALSE(parse_debug_offsets(description(13, 89)));
  EXPECT_FALSE(parse_debug_offsets(description(16, 105)));
  auto words = description(14, 89);
  words[1] = uint64_t{4} << 24 | uint64_t{14} << 16;
  EXPECT_FALSE(parse_debug_offsets(words));
  words = description(14, 89);
  words[0] = 0;
  EXPECT_FALSE(parse_debug_offsets(words));
  words = description(14, 89);
  words.resize(40);
  EXPECT_FALSE(parse_debug_offsets(words));
}

TEST(DebugOffsets, ThatAreOutOfProportionAreNotBelieved) {
  for (const auto& [word, value] : {std::pair<size_t, uint64_t>{89, 1 << 20},
                                    {89, 25},
                                    {90, 700},
                                    {91, 400'000},
                                    {92, 5000},
                                    {94, 511},
                                    {10, 1 << 30},
                                    {5, 1 << 30},
                                    {22, 600}}) {
    auto words = description(14, 89);
    words[word] = value;
    EXPECT_FALSE(parse_debug_offsets(words)) << word << '=' << value;
  }
}

}  // namespace
