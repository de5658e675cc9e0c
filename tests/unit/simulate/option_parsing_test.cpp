// What a rehearsal's options say.
#include "simulate/settings/option_parsing.h"

#include <gtest/gtest.h>

namespace devtrace::simulate {
namespace {

TEST(OptionParsing, WhichValuesAreComputed) {
  for (const char* all : {"all", "python"}) EXPECT_EQ(read_values(all)->policy, ValuesPolicy::all) << all;
  for (const char* none : {"none", "0"}) EXPECT_EQ(read_values(none)->policy, ValuesPolicy::none) << none;
  EXPECT_EQ(read_values("small")->policy, ValuesPolicy::small);
  EXPECT_TRUE(read_values("all")->asked && read_values("small")->asked && read_values("small:4KiB")->asked);
  EXPECT_FALSE(WantedValues{}.asked || read_values("auto")->asked);
  EXPECT_EQ(read_values("small")->large, size_t{16} << 20);
  EXPECT_EQ(read_values("small:4KiB")->large, size_t{4096});
  EXPECT_EQ(read_values("small:1")->large, size_t{1});
  for (const char* wrong : {"", "large", "small:", "small:x", "small:0", "small:2048GiB", "Small"})
    EXPECT_FALSE(read_values(wrong)) << wrong;
}

TEST(OptionParsing, ADevicesMemoryHasBounds) {
  EXPECT_EQ(read_memory("24GiB"), size_t{24} << 30);
  EXPECT_EQ(read_memory("800 MB"), size_t{800'000'000});
  EXPECT_FALSE(read_memory("1MiB"));
  EXPECT_FALSE(read_memory("1025GiB"));
}

}  // namespace
}  // namespace devtrace::simulate
