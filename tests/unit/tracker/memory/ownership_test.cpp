#include "tracker/memory/ownership.h"

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

TEST(Ownership, EverythingThatStartsInARangeGoesAtOnce) {
  constexpr uintptr_t kRange = kBase + 1024 * kChunk;
  const uintptr_t starts[] = {kRange, kRange + kChunk,
                              kRange + 3 * kChunk,         // after a gap, in the middle of a step of 2 MiB
                              kRange + 5 * kChunk + 4096,  // a small one
                              kRange + 6 * kChunk};
  for (const uintptr_t start : starts) ownership::add({start, start == starts[3] ? 4096 : kChunk, Device::cuda(1)});
  ownership::add({kRange - kChunk, kChunk, Device::cuda(1)});      // before
  ownership::add({kRange + 8 * kChunk, kChunk, Device::cuda(1)});  // at the end
  ownership::remove_starting_in(kRange, kRange + 8 * kChunk);
  for (const uintptr_t start : starts) EXPECT_FALSE(ownership::find(start)) << std::hex << start;
  EXPECT_TRUE(ownership::find(kRange - kChunk));
  EXPECT_TRUE(ownership::find(kRange + 8 * kChunk));
  // As many steps as an address space has: it ends, and soon.
  ownership::remove_starting_in(kRange - kChunk, (uintptr_t{1} << ownership::kAddressBits) - 1);
  EXPECT_FALSE(ownership::find(kRange - kChunk));
  EXPECT_FALSE(ownership::find(kRange + 8 * kChunk));
}
