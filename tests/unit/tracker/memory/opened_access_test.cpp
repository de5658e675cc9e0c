// Which line opened memory to devices, and on which of them anything was computed.
#include "tracker/memory/opened_access.h"

#include <gtest/gtest.h>

#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/peer_access.h"

namespace memory = devtrace::memory;
namespace opened = devtrace::memory::opened_access;
using devtrace::Device;

namespace {

// Devices and addresses that no other test has.
constexpr int kFirst = 40, kSecond = 41;
constexpr uintptr_t kRange = 0x7100'0000'0000;

class OpenedAccess : public testing::Test {
 protected:
  void SetUp() override { opened::forget_all(); }
  void TearDown() override {
    opened::forget_all();
    memory::peer_access::changed(kFirst, kSecond, false, true);
    memory::peer_access::changed(kSecond, kFirst, false, true);
  }
};

}  // namespace

TEST_F(OpenedAccess, APairThatWasOpenedTheOtherWayRound) {
  memory::peer_access::changed(kFirst, kSecond, true, true);
  opened::of_pair(kFirst, kSecond);
  // The second one uses memory of the first one.
  const auto found = opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, Device::cuda(kFirst));
  // This way it is open.
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kFirst), Device::cuda(kSecond), kRange));
  memory::peer_access::changed(kSecond, kFirst, true, true);
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange));
}

TEST_F(OpenedAccess, APairThatNobodyOpened) {
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange));
  opened::of_pair(kFirst, memory::peer_access::kDevices);
  opened::of_pair(-1, kFirst);
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange));
}

TEST_F(OpenedAccess, OfSeveralRangesTheOneThatHoldsTheAddressAndCameLast) {
  opened::of_range(0, 64);
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), 8));
  opened::of_range(kRange, 4096);
  const auto first = opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange + 4095);
  ASSERT_TRUE(first);
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange + 4096));
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange - 1));
  opened::of_range(kRange + 1024, 1024);
  const auto second = opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange + 1500);
  ASSERT_TRUE(second);
  EXPECT_GE(second->time, first->time);
  opened::forget_all();
  EXPECT_FALSE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange + 1500));
}

TEST_F(OpenedAccess, AForkGoesBetween) {
  opened::of_range(kRange, 16);
  opened::before_fork();
  opened::after_fork();
  opened::of_range(kRange + 16, 16);
  EXPECT_TRUE(opened::but_not_to(Device::cuda(kSecond), Device::cuda(kFirst), kRange + 20));
}

TEST(DevicesInUse, WhereAnythingHasRunUntilItIsNotKnown) {
  namespace in_use = memory::devices_in_use;
  in_use::detail::devices = 0;
  EXPECT_FALSE(in_use::has_computed(Device::cuda(3)));
  in_use::computes(Device::cuda(3));
  in_use::computes(Device::cuda(3));
  EXPECT_TRUE(in_use::has_computed(Device::cuda(3)));
  EXPECT_FALSE(in_use::has_computed(Device::cuda(2)));
  // Of the host, and of devices beyond what is kept, nothing is held against anybody.
  in_use::computes(Device::cpu());
  EXPECT_TRUE(in_use::has_computed(Device::cpu()));
  EXPECT_TRUE(in_use::has_computed(Device::cuda(70)));
  EXPECT_FALSE(in_use::has_computed(Device::cuda(63)));
  in_use::computes(Device::cuda(63));
  EXPECT_TRUE(in_use::has_computed(Device::cuda(63)));
  in_use::forget_all();
  EXPECT_TRUE(in_use::has_computed(Device::cuda(2)));
}
