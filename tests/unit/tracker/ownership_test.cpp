#include "tracker/ownership.h"

#include <gtest/gtest.h>

namespace ownership = devtrace::ownership;
using devtrace::Device;
using ownership::Memory;

namespace {
constexpr uintptr_t kChunk = uintptr_t{1} << ownership::kChunkBits;
constexpr uintptr_t kBase = 0x7200'0000'0000;  // of a region that no other test uses
}  // namespace

TEST(Ownership, AnAddressNobodyOwnsIsUnknown) {
  EXPECT_FALSE(ownership::likely(0).known());
  EXPECT_FALSE(ownership::likely(kBase).known());
  EXPECT_FALSE(ownership::likely(~uintptr_t{0}).known());
  EXPECT_FALSE(ownership::likely(uintptr_t{1} << ownership::kAddressBits).known());
  EXPECT_FALSE(ownership::find(kBase));
}

TEST(Ownership, EveryChunkThatAnAllocationTouchesIsItsDevices) {
  ownership::add({kBase + kChunk / 2, 2 * kChunk, Device::cuda(3)});
  EXPECT_EQ(ownership::likely(kBase), Device::cuda(3));
  EXPECT_EQ(ownership::likely(kBase + 3 * kChunk - 1), Device::cuda(3));
  EXPECT_FALSE(ownership::likely(kBase + 3 * kChunk).known());
  // Exactly: only what was given out.
  EXPECT_FALSE(ownership::find(kBase + kChunk / 2 - 1));
  EXPECT_EQ(ownership::find(kBase + kChunk / 2)->device, Device::cuda(3));
  EXPECT_EQ(ownership::find(kBase + kChunk / 2 + 2 * kChunk - 1)->device, Device::cuda(3));
  EXPECT_FALSE(ownership::find(kBase + kChunk / 2 + 2 * kChunk));
  EXPECT_TRUE(ownership::remove(kBase + kChunk / 2));
  EXPECT_FALSE(ownership::find(kBase + kChunk));
  EXPECT_FALSE(ownership::remove(kBase + kChunk / 2));
}

TEST(Ownership, MemoryThatComesAgainHasItsNewOwner) {
  ownership::add({kBase, kChunk, Device::cuda(0)});
  ownership::remove(kBase);
  ownership::add({kBase, kChunk, Device::cuda(7)});
  EXPECT_EQ(ownership::likely(kBase + 5), Device::cuda(7));
  EXPECT_EQ(ownership::find(kBase + 5)->device, Device::cuda(7));
  ownership::remove(kBase);
}

TEST(Ownership, WhatEveryDeviceMayReadMakesNothingSuspicious) {
  constexpr uintptr_t kOther = kBase + 64 * kChunk;
  ownership::add({kOther, kChunk, Device::cpu(), Memory::managed});
  ownership::add({kOther + kChunk, kChunk, Device::cpu(), Memory::pinned});
  EXPECT_FALSE(ownership::likely(kOther).known());
  EXPECT_FALSE(ownership::likely(kOther + kChunk).known());
  EXPECT_EQ(ownership::find(kOther)->memory, Memory::managed);
  EXPECT_EQ(ownership::find(kOther + kChunk)->memory, Memory::pinned);
  ownership::remove(kOther);
  ownership::remove(kOther + kChunk);
}
