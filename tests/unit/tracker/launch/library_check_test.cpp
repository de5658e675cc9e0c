#include "tracker/launch/library_check.h"

#include <gtest/gtest.h>

#include "tests/unit/tracker/quiet.h"
#include "tracker/events.h"
#include "tracker/findings/findings.h"
#include "tracker/interface/platform.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/ownership.h"

namespace {

using namespace devtrace;
using events::Known;

constexpr uintptr_t kBase = 0x7310'0000'0000;
constexpr uintptr_t kStep = uintptr_t{64} << 20;
constexpr events::LibraryHandle kHandle = 0x5500'0000'1000;

const bool quiet = test::quiet();
int device_now = 0;

const void* memory_of(int device) {
  return reinterpret_cast<const void*>(kBase + static_cast<uintptr_t>(device) * kStep);
}

class LibraryCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(quiet);
    Platform answers = test::platform_of_device_0();
    answers.current_device = [] { return device_now; };
    answers.memory_at = [](uint64_t, Extent&) { return Platform::Answer::nobodys; };
    set_platform(answers);
    for (int device = 0; device < 2; ++device)
      memory::ownership::add({reinterpret_cast<uintptr_t>(memory_of(device)), kStep / 2, Device::cuda(device)});
  }
  void SetUp() override {
    device_now = 0;
    events::library_handle_made(kHandle, "cublasCreate");
  }
  void TearDown() override { events::library_handle_gone(kHandle); }

  static Known called(std::vector<const void*> arguments) {
    const Known known = events::library_called({"cublasSgemm", kHandle, arguments.data(), arguments.size(), nullptr});
    if (known == Known::told) events::library_returned();
    return known;
  }
};

TEST_F(LibraryCalls, OnMemoryOfTheHandlesDevice) {
  const float scalar = 1;
  const auto before = findings::count();
  EXPECT_EQ(called({&scalar, memory_of(0), nullptr}), Known::yes);
  EXPECT_EQ(findings::count(), before);
}

TEST_F(LibraryCalls, OnMemoryOfAnotherDevice) {
  const auto before = findings::count();
  EXPECT_EQ(called({memory_of(0), memory_of(1)}), Known::told);
  EXPECT_EQ(called({memory_of(1)}), Known::told);
  EXPECT_EQ(findings::count(), before + 2);
}

TEST_F(LibraryCalls, WhichDeviceIsCurrentDoesNotMatter) {
  device_now = 1;
  const auto before = findings::count();
  EXPECT_EQ(called({memory_of(0)}), Known::yes);
  EXPECT_EQ(findings::count(), before);
}

TEST_F(LibraryCalls, OfAHandleThatNobodySaw) {
  events::library_handle_gone(kHandle);
  EXPECT_EQ(called({memory_of(1)}), Known::no);
}

TEST_F(LibraryCalls, AHandleIsBoundAnew) {
  device_now = 1;
  events::library_handle_made(kHandle, "cufftMakePlan1d");
  EXPECT_EQ(called({memory_of(1)}), Known::yes);
}

TEST_F(LibraryCalls, AHandleThatHasWorkedOnItsDevice) {
  const float scalar = 1;
  EXPECT_FALSE(memory::library_handles::find(kHandle)->used);
  called({&scalar, nullptr});
  EXPECT_FALSE(memory::library_handles::find(kHandle)->used) << "on nobody's memory";
  called({&scalar, memory_of(0)});
  EXPECT_TRUE(memory::library_handles::find(kHandle)->used);
}

TEST_F(LibraryCalls, WhatAToldCallLaunchesIsNotToldAgain) {
  const void* arguments[] = {memory_of(1)};
  ASSERT_FALSE(launch::within_told_call());
  ASSERT_EQ(events::library_called({"cublasSgemm", kHandle, arguments, 1, nullptr}), Known::told);
  EXPECT_TRUE(launch::within_told_call());
  EXPECT_EQ(events::library_called({"cublasStrsm", kHandle, arguments, 1, nullptr}), Known::yes) << "by a library";
  events::library_returned();
  EXPECT_FALSE(launch::within_told_call());
}

TEST_F(LibraryCalls, OtherHandlesOfTheLibraryOnADevice) {
  device_now = 1;
  events::library_handle_made(kHandle + 1, "cublasCreate");
  events::library_handle_made(kHandle + 2, "cufftPlan1d");
  events::library_handle_made(kHandle + 3, "cublasLtCreate");
  const auto own = memory::library_handles::find(kHandle);
  const auto others = memory::library_handles::others(*own, Device::cuda(1));
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].number, kHandle + 1);
  for (int i = 1; i < 4; ++i) events::library_handle_gone(kHandle + static_cast<uint64_t>(i));
}

}  // namespace
