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
