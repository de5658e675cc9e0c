#include "tracker/memory/ownership.h"

#include <gtest/gtest.h>

namespace memory = devtrace::memory;
using devtrace::Device;
using memory::ownership::Memory;

namespace {
constexpr uintptr_t kChunk = uintptr_t{1} << memory::ownership::kChunkBits;
constexpr uintptr_t kBase = 0x7200'0000'0000;  // of a region that no other test uses
}  // namespace

TEST(Ownership, AnAddressNobodyOwnsIsUnknown) {
  EXPECT_FALSE(memory::ownership::likely(0).known());
  EXPECT_FALSE(memory::ownership::likely(kBase).known());
  EXPECT_FALSE(memory::ownership::likely(~uintptr_t{0}).known());
  EXPECT_FALSE(memory::ownership::likely(uintptr_t{1} << memory::ownership::kAddressBits).known());
  EXPECT_FALSE(memory::ownership::find(kBase));
}

TEST(Ownership, EveryChunkThatAnAllocationTouchesIsItsDevices) {
  memory::ownership::add({kBase + kChunk / 2, 2 * kChunk, Device::cuda(3)});
  EXPECT_EQ(memory::ownership::likely(kBase), Device::cuda(3));
  EXPECT_EQ(memory::ownership::likely(kBase + 3 * kChunk - 1), Device::cuda(3));
  EXPECT_FALSE(memory::ownership::likely(kBase + 3 * kChunk).known());
  // Exactly: only what was given out.
  EXPECT_FALSE(memory::ownership::find(kBase + kChunk / 2 - 1));
  EXPECT_EQ(memory::ownership::find(kBase + kChunk / 2)->device, Device::cuda(3));
  EXPECT_EQ(memory::ownership::find(kBase + kChunk / 2 + 2 * kChunk - 1)->device, Device::cuda(3));
  EXPECT_FALSE(memory::ownership::find(kBase + kChunk / 2 + 2 * kChunk));
  EXPECT_TRUE(memory::ownership::remove(kBase + kChunk / 2));
  EXPECT_FALSE(memory::ownership::find(kBase + kChunk));
  EXPECT_FALSE(memory::ownership::remove(kBase + kChunk / 2));
}

TEST(Ownership, MemoryThatComesAgainHasItsNewOwner) {
  memory::ownership::add({kBase, kChunk, Device::cuda(0)});
  memory::ownership::remove(kBase);
  memory::ownership::add({kBase, kChunk, Device::cuda(7)});
  EXPECT_EQ(memory::ownership::likely(kBase + 5), Device::cuda(7));
  EXPECT_EQ(memory::ownership::find(kBase + 5)->device, Device::cuda(7));
  memory::ownership::remove(kBase);
}

TEST(Ownership, WhatEveryDeviceMayReadMakesNothingSuspicious) {
  constexpr uintptr_t kOther = kBase + 64 * kChunk;
  memory::ownership::add({kOther, kChunk, Device::cpu(), Memory::managed});
  memory::ownership::add({kOther + kChunk, kChunk, Device::cpu(), Memory::pinned});
  EXPECT_FALSE(memory::ownership::likely(kOther).known());
  EXPECT_FALSE(memory::ownership::likely(kOther + kChunk).known());
  EXPECT_EQ(memory::ownership::find(kOther)->memory, Memory::managed);
  EXPECT_EQ(memory::ownership::find(kOther + kChunk)->memory, Memory::pinned);
  memory::ownership::remove(kOther);
  memory::ownership::remove(kOther + kChunk);
}

TEST(Ownership, EverythingThatStartsInARangeGoesAtOnce) {
  constexpr uintptr_t kRange = kBase + 1024 * kChunk;
  const uintptr_t starts[] = {kRange, kRange + kChunk,
                              kRange + 3 * kChunk,         // after a gap, in the middle of a step of 2 MiB
                              kRange + 5 * kChunk + 4096,  // a small one
                              kRange + 6 * kChunk};
  for (const uintptr_t start : starts)
    memory::ownership::add({start, start == starts[3] ? 4096 : kChunk, Device::cuda(1)});
  memory::ownership::add({kRange - kChunk, kChunk, Device::cuda(1)});      // before
  memory::ownership::add({kRange + 8 * kChunk, kChunk, Device::cuda(1)});  // at the end
  memory::ownership::remove_starting_in(kRange, kRange + 8 * kChunk);
  for (const uintptr_t start : starts) EXPECT_FALSE(memory::ownership::find(start)) << std::hex << start;
  EXPECT_TRUE(memory::ownership::find(kRange - kChunk));
  EXPECT_TRUE(memory::ownership::find(kRange + 8 * kChunk));
  // As many steps as an address space has: it ends, and soon.
  memory::ownership::remove_starting_in(kRange - kChunk, (uintptr_t{1} << memory::ownership::kAddressBits) - 1);
  EXPECT_FALSE(memory::ownership::find(kRange - kChunk));
  EXPECT_FALSE(memory::ownership::find(kRange + 8 * kChunk));
}
