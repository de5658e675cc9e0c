#include <gtest/gtest.h>

#include <cstdint>

#include "tracker/memory/host_memory.h"

namespace devtrace::memory::host_memory {
namespace {

// Two numbers of 32 bits in one word, as kernels are given sizes and strides.
uintptr_t sizes(uintptr_t high, uintptr_t low) {
  return high << 32 | low;
}

TEST(HarmlessWords, PairsOfSmallNumbersAreAllRemembered) {
  forget_harmless();
  for (uintptr_t high = 1; high <= 32; ++high) remember_harmless(sizes(high, 8));
  for (uintptr_t high = 1; high <= 32; ++high) EXPECT_FALSE(possible(sizes(high, 8))) << high;
}

TEST(HarmlessWords, ArePossibleAgainOnceForgotten) {
  remember_harmless(sizes(3, 8));
  EXPECT_FALSE(possible(sizes(3, 8)));
  forget_harmless();
  EXPECT_TRUE(possible(sizes(3, 8)));
  EXPECT_TRUE(possible(sizes(4, 8)));
}

// A Linux of 48 bits puts the first stack and what is mapped without a hint at the end of user space.
TEST(HarmlessWords, TheEndOfUserSpaceIsInRange) {
#ifdef __x86_64__
  EXPECT_TRUE(in_range(0x7fff'ffff'e000));
  EXPECT_FALSE(in_range(0x8000'0000'0000));
#else
  EXPECT_TRUE(in_range(0xffff'ffff'e000));
  EXPECT_FALSE(in_range(0x1'0000'0000'0000));
#endif
}

TEST(HarmlessWords, AllOfAPageIsRemembered) {
  forget_harmless();
  remember_harmless(sizes(3, 8));
  EXPECT_FALSE(possible(sizes(3, 4095)));
  EXPECT_TRUE(possible(sizes(3, 4096)));
}

}  // namespace
}  // namespace devtrace::memory::host_memory
