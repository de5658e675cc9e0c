#include "binary/names.h"

#include <gtest/gtest.h>

namespace devtrace::binary {
namespace {

TEST(Names, OnlyMangledOnesAreDemangled) {
  EXPECT_EQ(demangled("_Z5scalePfi"), "scale(float*, int)");
  EXPECT_EQ(demangled("f"), "f");  // float, as a type is mangled
  EXPECT_EQ(demangled("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
}

TEST(Names, TagsOfTheAbiAreLeftOut) {
  EXPECT_EQ(demangled("_ZN8__main__3addB2v1B8cw51cXTLEPf"), "__main__::add(float*)");
}

TEST(Names, TheShortOneIsWithoutTypes) {
  EXPECT_EQ(short_kernel_name("void at::native::vectorized<4, int>(int, float*)"), "at::native::vectorized");
  EXPECT_EQ(short_kernel_name("std::enable_if<(sizeof (float)) == (4), void>::type scale<float>(float*)"), "scale");
  EXPECT_EQ(short_kernel_name("void (anonymous namespace)::touch(int*)"), "(anonymous namespace)::touch");
  EXPECT_EQ(short_kernel_name("unsigned int f<int>(int) const"), "f");
  EXPECT_EQ(short_kernel_name("plain"), "plain");
}

}  // namespace
}  // namespace devtrace::binary
