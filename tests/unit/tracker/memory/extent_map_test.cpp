#include "tracker/memory/extent_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

using namespace devtrace;

namespace {

struct Extent {
  uintptr_t address;
  uint64_t bytes;
  uint64_t key() const { return address; }
};
constexpr uintptr_t kBase = 0x7000'0000'0000, kBytes = 512;
constexpr int kExtents = 2000;

uintptr_t place(int i) {
  return kBase + static_cast<uintptr_t>(i) * kBytes;
}

}  // namespace

TEST(ExtentMap, WhatWasPutBeforeTheFirstQuestionIsFoundFromInside) {
  memory::ExtentMap<Extent> map;
  for (int i = 0; i < kExtents; ++i) map.put({place(i), kBytes});
  Extent gone;
  ASSERT_TRUE(map.take(place(7), gone));
  for (int i = 0; i < kExtents; ++i) {
    Extent found;
    EXPECT_EQ(map.around(place(i) + 300, found), i != 7) << i;
  }
}

// The first question comes while others put and take.
TEST(ExtentMap, NothingIsLostThatIsPutWhileTheFirstQuestionIsAsked) {
  for (int round = 0; round < 50; ++round) {
    const auto map = std::make_unique<memory::ExtentMap<Extent>>();
    std::atomic<int> put{0};
    std::thread writer([&] {
      for (int i = 0; i < kExtents; ++i) {
        map->put({place(i), kBytes});
        Extent gone;
        if (i % 3 == 2) map->take(place(i), gone);
        put.store(i + 1);
      }
    });
    while (put.load() < kExtents / 4) std::this_thread::yield();
    Extent found;
    EXPECT_TRUE(map->around(place(0) + 300, found));
    writer.join();
    for (int i = 0; i < kExtents; ++i) ASSERT_EQ(map->around(place(i) + 300, found), i % 3 != 2) << i;
  }
}
