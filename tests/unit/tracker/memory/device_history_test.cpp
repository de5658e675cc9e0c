#include "tracker/memory/device_history.h"

#include <gtest/gtest.h>

#include <thread>

#include "tracker/base/clock.h"
#include "tracker/base/thread_state.h"

namespace history = devtrace::memory::device_history;

TEST(DeviceHistory, AThreadThatChoseNothingHasTheFirstDevice) {
  std::thread([] {
    const auto then = history::at(devtrace::thread_state::id(), devtrace::now_coarse());
    EXPECT_TRUE(then.by_default);
    EXPECT_FALSE(then.choice);
  }).join();
}

TEST(DeviceHistory, WhatAThreadChoseIsKnownWhenItIsGone) {
  uint32_t thread = 0;
  const uint64_t before = devtrace::now_coarse() - 1;
  std::thread([&] {
    thread = devtrace::thread_state::id();
    history::chosen(1);
    ASSERT_TRUE(history::last());
    EXPECT_EQ(history::last()->device, 1);
  }).join();
  const auto then = history::at(thread, devtrace::now_coarse());
  ASSERT_TRUE(then.choice);
  EXPECT_EQ(then.choice->device, 1);
  EXPECT_FALSE(then.by_default);
  EXPECT_TRUE(history::at(thread, before).by_default);
}

TEST(DeviceHistory, ADroppedChoiceIsNotTakenForNone) {
  uint32_t thread = 0;
  const uint64_t before = devtrace::now_coarse() - 1;
  std::thread([&] {
    thread = devtrace::thread_state::id();
    for (int i = 0; i < 20; ++i) history::chosen(i % 2 + i);  // another one each time: none gives way
    EXPECT_LE(history::kept().size(), 8u);
  }).join();
  if (history::at(thread, before).choice) GTEST_SKIP() << "one tick of the clock";
  EXPECT_FALSE(history::at(thread, before).by_default);
}

TEST(DeviceHistory, WhatWasChosenLaterInTheSameTickIsNotTakenForTheEarlierChoice) {
  std::thread([] {
    const uint32_t thread = devtrace::thread_state::id();
    for (int device = 1; device < 8; ++device) {
      history::chosen(device);
      const uint64_t between = devtrace::now_in_order(false);
      history::chosen(device + 100);
      const auto then = history::at(thread, between);
      ASSERT_TRUE(then.choice);
      EXPECT_EQ(then.choice->device, device);
    }
  }).join();
}
