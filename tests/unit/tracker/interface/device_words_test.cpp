#include "tracker/interface/device_words.h"

#include <gtest/gtest.h>

#include <string>

using devtrace::speaks_of_devices;

TEST(DeviceWords, AreFoundAtEveryPlace) {
  for (const char* word : {"device", "Device", "cuda", "CUDA", "cpu", "CPU", "GPU", "meta", "Meta"})
    for (size_t before = 0; before < 70; ++before)
      for (size_t after : {0, 1, 15, 16, 17, 40}) {
        const std::string text = std::string(before, '.') + word + std::string(after, ' ');
        EXPECT_EQ(speaks_of_devices(text), text.size() >= devtrace::kShortestDeviceError) << text;
      }
}

TEST(DeviceWords, NothingElseIs) {
  for (const char* text :
       {"", "short", "invalid literal for int() with base 10: 'x'", "the metadata of the previous service was updated",
        "data, vista, audit, puddle, input, compute, vision, update, evidence, studio", "xxxxxxxxxxxxxxxxdevic",
        "'NoneType' object has no attribute 'shape'"})
    EXPECT_FALSE(speaks_of_devices(text)) << text;
}

TEST(DeviceWords, OnlyTheBeginningOfALongTextIsRead) {
  std::string early(4000, 'x'), late(5000, 'x');
  early.append("cuda").append(4000, 'x');
  late.append("cuda");
  EXPECT_TRUE(speaks_of_devices(early));
  EXPECT_FALSE(speaks_of_devices(late));
}

#ifdef __x86_64__  // nor is the first look taken on others
namespace {

// For the processor that runs the tests: has_pair() becomes a part of who calls it.
[[gnu::target("avx")]] bool has_pair(const std::string& text) {
  return devtrace::device_words::has_pair(text.data(), text.size());
}

}  // namespace

TEST(DeviceWords, EveryTextOfThemHasAPair) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "a processor without AVX, where the first look is not taken";
  for (const char* word : {"device", "Device", "cuda", "CUDA", "cpu", "CPU", "GPU", "meta", "Meta"})
    for (size_t size = devtrace::kShortestDeviceError; size < 200; ++size)
      for (size_t before = 0; before + std::string_view(word).size() <= size; ++before) {
        std::string text(size, '.');
        text.replace(before, std::string_view(word).size(), word);
        ASSERT_TRUE(has_pair(text)) << text;
      }
  EXPECT_TRUE(has_pair(std::string(8096, 'x').replace(4092, 4, "cuda")));
}

TEST(DeviceWords, AnOrdinaryTextHasNoPair) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "a processor without AVX, where the first look is not taken";
  for (const char* text :
       {"list index out of range", "invalid literal for int() with base 10: 'x'",
        "'NoneType' object has no attribute 'shape'", "unsupported operand type(s) for +: 'int' and 'str'"})
    EXPECT_FALSE(has_pair(text)) << text;
  for (size_t size = devtrace::kShortestDeviceError; size < 300; ++size) {
    // What lies behind the text is not looked at, nor the two ends as neighbours.
    std::string text(size, '.');
    text.back() = 'u';
    text += "da";
    EXPECT_FALSE(devtrace::speaks_of_devices(text.substr(0, size)));
    EXPECT_FALSE([&]()
                     __attribute__((target("avx"))) { return devtrace::device_words::has_pair(text.data(), size); }());
  }
}
#endif
