// Which memory is live, whose it is, and which words cannot be an address.
#include "tracker/memory/live_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "tracker/memory/extent_map.h"
#include "tracker/memory/host_memory.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/pooled_memory.h"

using namespace devtrace;

namespace {

struct Piece {
  uintptr_t address;
  uint64_t bytes;
  uint64_t key() const { return address; }
};
constexpr uintptr_t kExtentMapBase = 0x7000'0000'0000, kBytes = 512;
constexpr int kExtents = 2000;

uintptr_t place(int i) {
  return kExtentMapBase + static_cast<uintptr_t>(i) * kBytes;
}

}  // namespace

TEST(ExtentMap, WhatWasPutBeforeTheFirstQuestionIsFoundFromInside) {
  memory::ExtentMap<Piece> map;
  for (int i = 0; i < kExtents; ++i) map.put({place(i), kBytes});
  Piece gone;
  ASSERT_TRUE(map.take(place(7), gone));
  for (int i = 0; i < kExtents; ++i) {
    Piece found;
    EXPECT_EQ(map.around(place(i) + 300, found), i != 7) << i;
  }
}

// The first question comes while others put and take.
TEST(ExtentMap, NothingIsLostThatIsPutWhileTheFirstQuestionIsAsked) {
  for (int round = 0; round < 50; ++round) {
    const auto map = std::make_unique<memory::ExtentMap<Piece>>();
    std::atomic<int> put{0};
    std::thread writer([&] {
      for (int i = 0; i < kExtents; ++i) {
        map->put({place(i), kBytes});
        Piece gone;
        if (i % 3 == 2) map->take(place(i), gone);
        put.store(i + 1);
      }
    });
    while (put.load() < kExtents / 4) std::this_thread::yield();
    Piece found;
    EXPECT_TRUE(map->around(place(0) + 300, found));
    writer.join();
    for (int i = 0; i < kExtents; ++i) ASSERT_EQ(map->around(place(i) + 300, found), i % 3 != 2) << i;
  }
}

namespace memory = devtrace::memory;
using devtrace::Device;
using devtrace::LiveMemory;
using devtrace::MemoryKind;

namespace {

constexpr uintptr_t kLiveMemoryBase = 0x7100'0000'0000;

const LiveMemory::Device& of(int index) {
  return memory::live_memory::now().devices[index];
}

TEST(LiveMemory, HasWhatPyTorchSaysAndTheMostOfIt) {
  memory::live_memory::forget_all();
  memory::live_memory::torch_has({Device::cuda(1), 100, 1000});
  memory::live_memory::torch_has({Device::cuda(1), 700, 2000});
  memory::live_memory::torch_has({Device::cuda(1), 300, 2000});
  memory::live_memory::torch_has({Device::cpu(), 5, 5});
  memory::live_memory::torch_has({Device::cuda(100), 5, 5});
  EXPECT_EQ(of(1).tensors, 300u);
  EXPECT_EQ(of(1).peak, 700u);
  EXPECT_EQ(of(1).reserved, 2000u);
  EXPECT_EQ(of(0).tensors, 0u);
}

TEST(LiveMemory, APeakKnowsWhatItWasFor) {
  using memory::live_memory::Use;
  const Device device = Device::cuda(2);
  const auto part = [&](Use use) { return memory::live_memory::peak_of(device).uses[static_cast<size_t>(use)]; };
  memory::live_memory::forget_all();
  memory::live_memory::torch_has({device, 1000, 1000});
  const uint64_t before = memory::live_memory::peak_of(device).time;
  memory::live_memory::is_used(device, Use::weights, 600, before - 1);
  EXPECT_EQ(part(Use::weights), 600u) << "given before the peak, looked at after it";
  memory::live_memory::is_used(device, Use::cache, 100, before + 1);
  EXPECT_EQ(part(Use::cache), 0u) << "given since";
  memory::live_memory::no_longer_used(device, Use::weights, 600);
  EXPECT_EQ(part(Use::weights), 600u) << "of that peak it was a part";
  memory::live_memory::torch_has({device, 1100, 2000});
  EXPECT_EQ(part(Use::weights), 0u);
  EXPECT_EQ(part(Use::cache), 100u);
  memory::live_memory::forget_all();
}

TEST(LiveMemory, AnActivationMayTurnOutToBeAnother) {
  using memory::live_memory::Use;
  const Device device = Device::cuda(2);
  const auto part = [&](Use use) { return memory::live_memory::peak_of(device).uses[static_cast<size_t>(use)]; };
  memory::live_memory::forget_all();
  memory::live_memory::begins_as(device, Use::activations, 300);
  memory::live_memory::torch_has({device, 1000, 1000});
  const uint64_t then = memory::live_memory::peak_of(device).time;
  EXPECT_EQ(part(Use::activations), 300u);
  memory::live_memory::is_used(device, Use::cache, 100, then - 1, Use::activations);
  EXPECT_EQ(part(Use::activations), 200u);
  EXPECT_EQ(part(Use::cache), 100u);
  memory::live_memory::no_longer_used(device, Use::activations, 200);
  EXPECT_EQ(part(Use::activations), 200u) << "of that peak it was a part";
  memory::live_memory::torch_has({device, 1100, 2000});
  EXPECT_EQ(part(Use::activations), 0u);
  EXPECT_EQ(part(Use::cache), 100u);
  memory::live_memory::forget_all();
}

TEST(LiveMemory, ALookIsDueWhenAPeakHasGrown) {
  memory::live_memory::forget_all();
  memory::live_memory::note_looked();
  memory::live_memory::torch_has({Device::cuda(2), 12800, 20000});
  EXPECT_TRUE(memory::live_memory::look_is_due.load());
  memory::live_memory::note_looked();
  memory::live_memory::torch_has({Device::cuda(2), 12900, 20000});
  EXPECT_FALSE(memory::live_memory::look_is_due.load());
  memory::live_memory::torch_has({Device::cuda(2), 12901, 20000});
  EXPECT_TRUE(memory::live_memory::look_is_due.load());
  memory::live_memory::forget_all();
}

TEST(LiveMemory, ItsCourseIsBoundedAndKeepsThePeak) {
  memory::live_memory::forget_all();
  for (size_t call = 0; call < 100'000; ++call)
    memory::live_memory::torch_has({Device::cuda(2), call == 54'321 ? 9999 : call % 100, 10'000});
  const auto course = memory::live_memory::course_of(Device::cuda(2));
  EXPECT_LE(course.size(), memory::live_memory::kMostPoints + 1);
  EXPECT_GT(course.size(), memory::live_memory::kMostPoints / 2);
  EXPECT_EQ(std::ranges::count_if(course, [](const auto& point) { return point.tensors == 9999; }), 1);
  EXPECT_TRUE(std::ranges::all_of(course, [](const auto& point) { return point.reserved == 10'000; }));
  memory::live_memory::forget_all();
}

TEST(LiveMemory, CountsWhatIsOwnedByDevice) {
  memory::ownership::forget_all();
  memory::ownership::add({kLiveMemoryBase, 1 << 21, Device::cuda(0), MemoryKind::device});
  memory::ownership::add({kLiveMemoryBase + (1 << 21), 1 << 20, Device::cuda(0), MemoryKind::device});
  memory::ownership::add({kLiveMemoryBase + (2 << 21), 1 << 20, Device::cpu(), MemoryKind::pinned});
  memory::ownership::add(
      {kLiveMemoryBase + (1 << 21), 1 << 21, Device::cuda(0), MemoryKind::device});  // in the place of another
  EXPECT_EQ(of(0).allocated, uint64_t{2} << 21);
  memory::ownership::remove(kLiveMemoryBase);
  EXPECT_EQ(of(0).allocated, uint64_t{1} << 21);
  memory::ownership::remove_starting_in(kLiveMemoryBase, kLiveMemoryBase + (3 << 21));
  EXPECT_EQ(of(0).allocated, 0u);
  EXPECT_EQ(of(0).allocated_peak, uint64_t{2} << 21);
}

TEST(LiveMemory, AnEndWithoutABeginningIsNotCounted) {
  memory::live_memory::forget_all();
  memory::live_memory::freed(Device::cuda(0), 4096);
  EXPECT_EQ(of(0).allocated, 0u);
  memory::live_memory::allocated(Device::cuda(0), 4096);
  EXPECT_EQ(of(0).allocated, 4096u);
  EXPECT_EQ(of(0).allocated_peak, 4096u);
}

}  // namespace

namespace memory = devtrace::memory;
using devtrace::Device;
using memory::ownership::Memory;

namespace {
constexpr uintptr_t kChunk = uintptr_t{1} << memory::ownership::kChunkBits;
constexpr uintptr_t kOwnershipBase = 0x7200'0000'0000;  // of a region that no other test uses
}  // namespace

TEST(Ownership, AnAddressNobodyOwnsIsUnknown) {
  EXPECT_FALSE(memory::ownership::likely(0).known());
  EXPECT_FALSE(memory::ownership::likely(kOwnershipBase).known());
  EXPECT_FALSE(memory::ownership::likely(~uintptr_t{0}).known());
  EXPECT_FALSE(memory::ownership::likely(uintptr_t{1} << memory::ownership::kAddressBits).known());
  EXPECT_FALSE(memory::ownership::extent_at(kOwnershipBase));
}

TEST(Ownership, EveryChunkThatAnAllocationTouchesIsItsDevices) {
  memory::ownership::add({kOwnershipBase + kChunk / 2, 2 * kChunk, Device::cuda(3)});
  EXPECT_EQ(memory::ownership::likely(kOwnershipBase), Device::cuda(3));
  EXPECT_EQ(memory::ownership::likely(kOwnershipBase + 3 * kChunk - 1), Device::cuda(3));
  EXPECT_FALSE(memory::ownership::likely(kOwnershipBase + 3 * kChunk).known());
  // Exactly: only what was given out.
  EXPECT_FALSE(memory::ownership::extent_at(kOwnershipBase + kChunk / 2 - 1));
  EXPECT_EQ(memory::ownership::extent_at(kOwnershipBase + kChunk / 2)->device, Device::cuda(3));
  EXPECT_EQ(memory::ownership::extent_at(kOwnershipBase + kChunk / 2 + 2 * kChunk - 1)->device, Device::cuda(3));
  EXPECT_FALSE(memory::ownership::extent_at(kOwnershipBase + kChunk / 2 + 2 * kChunk));
  EXPECT_TRUE(memory::ownership::remove(kOwnershipBase + kChunk / 2));
  EXPECT_FALSE(memory::ownership::extent_at(kOwnershipBase + kChunk));
  EXPECT_FALSE(memory::ownership::remove(kOwnershipBase + kChunk / 2));
}

TEST(Ownership, MemoryThatComesAgainHasItsNewOwner) {
  memory::ownership::add({kOwnershipBase, kChunk, Device::cuda(0)});
  memory::ownership::remove(kOwnershipBase);
  memory::ownership::add({kOwnershipBase, kChunk, Device::cuda(7)});
  EXPECT_EQ(memory::ownership::likely(kOwnershipBase + 5), Device::cuda(7));
  EXPECT_EQ(memory::ownership::extent_at(kOwnershipBase + 5)->device, Device::cuda(7));
  memory::ownership::remove(kOwnershipBase);
}

TEST(Ownership, WhatEveryDeviceMayReadMakesNothingSuspicious) {
  constexpr uintptr_t kOther = kOwnershipBase + 64 * kChunk;
  memory::ownership::add({kOther, kChunk, Device::cpu(), Memory::managed});
  memory::ownership::add({kOther + kChunk, kChunk, Device::cpu(), Memory::pinned});
  EXPECT_FALSE(memory::ownership::likely(kOther).known());
  EXPECT_FALSE(memory::ownership::likely(kOther + kChunk).known());
  EXPECT_EQ(memory::ownership::extent_at(kOther)->memory, Memory::managed);
  EXPECT_EQ(memory::ownership::extent_at(kOther + kChunk)->memory, Memory::pinned);
  memory::ownership::remove(kOther);
  memory::ownership::remove(kOther + kChunk);
}

TEST(Ownership, EverythingThatStartsInARangeGoesAtOnce) {
  constexpr uintptr_t kRange = kOwnershipBase + 1024 * kChunk;
  const uintptr_t starts[] = {kRange, kRange + kChunk,
                              kRange + 3 * kChunk,         // after a gap, in the middle of a step of 2 MiB
                              kRange + 5 * kChunk + 4096,  // a small one
                              kRange + 6 * kChunk};
  for (const uintptr_t start : starts)
    memory::ownership::add({start, start == starts[3] ? 4096 : kChunk, Device::cuda(1)});
  memory::ownership::add({kRange - kChunk, kChunk, Device::cuda(1)});      // before
  memory::ownership::add({kRange + 8 * kChunk, kChunk, Device::cuda(1)});  // at the end
  memory::ownership::remove_starting_in(kRange, kRange + 8 * kChunk);
  for (const uintptr_t start : starts) EXPECT_FALSE(memory::ownership::extent_at(start)) << std::hex << start;
  EXPECT_TRUE(memory::ownership::extent_at(kRange - kChunk));
  EXPECT_TRUE(memory::ownership::extent_at(kRange + 8 * kChunk));
  // As many steps as an address space has: it ends, and soon.
  memory::ownership::remove_starting_in(kRange - kChunk, (uintptr_t{1} << memory::ownership::kAddressBits) - 1);
  EXPECT_FALSE(memory::ownership::extent_at(kRange - kChunk));
  EXPECT_FALSE(memory::ownership::extent_at(kRange + 8 * kChunk));
}

namespace memory = devtrace::memory;
using devtrace::Device;

namespace {

constexpr uintptr_t kPooledMemoryBase = 0x7500'0000'0000;  // of a region that no other test uses

// As CuPy's PooledMemory lies in memory.
struct Object {
  uintptr_t count = 1, type = 0x1234560;
  uintptr_t address = 0;
  size_t bytes = 0;
  int32_t device = 0, unused = 0;
  uintptr_t functions = 0x1234560, pool = 0x1234560;
};

class PooledMemory : public testing::Test {
 protected:
  void SetUp() override { memory::provenance::allocated(kPooledMemoryBase, 4096, Device::cuda(1)); }
  void TearDown() override {
    memory::pooled_memory::forget_all();
    memory::provenance::freed(kPooledMemoryBase);
  }
  static bool pooled(uintptr_t address) { return memory::provenance::block_at(address)->pooled; }
};

}  // namespace

TEST_F(PooledMemory, APartIsFoundAsLongAsItsObjectLives) {
  Object object;
  memory::pooled_memory::made(reinterpret_cast<uintptr_t>(&object), sizeof object);
  EXPECT_FALSE(pooled(kPooledMemoryBase + 512)) << "its fields are not filled in yet";
  object.address = kPooledMemoryBase + 512, object.bytes = 512, object.device = 1;
  const auto part = memory::provenance::block_at(kPooledMemoryBase + 600);
  EXPECT_TRUE(part->pooled);
  EXPECT_EQ(part->address, kPooledMemoryBase + 512);
  EXPECT_EQ(part->bytes, 512u);
  EXPECT_EQ(part->allocated.device, Device::cuda(1));
  EXPECT_FALSE(pooled(kPooledMemoryBase + 511));
  EXPECT_FALSE(pooled(kPooledMemoryBase + 1024));
  memory::pooled_memory::gone(reinterpret_cast<uintptr_t>(&object));
  EXPECT_FALSE(pooled(kPooledMemoryBase + 600));
}

TEST_F(PooledMemory, WhatDoesNotAgreeWithTheAllocationIsNotBelieved) {
  Object object;
  memory::pooled_memory::made(reinterpret_cast<uintptr_t>(&object), sizeof object);
  object.address = kPooledMemoryBase + 512, object.bytes = 512, object.device = 0;
  EXPECT_FALSE(pooled(kPooledMemoryBase + 600)) << "another device";
  object.device = 1, object.bytes = 500;
  EXPECT_FALSE(pooled(kPooledMemoryBase + 600)) << "no size of the pool's";
  object.bytes = 8192;
  EXPECT_FALSE(pooled(kPooledMemoryBase + 600)) << "it runs over the allocation";
  object.bytes = 1024;
  EXPECT_TRUE(pooled(kPooledMemoryBase + 600));
  memory::pooled_memory::made(8, sizeof object);  // memory that is not there
  EXPECT_TRUE(pooled(kPooledMemoryBase + 600));
}

TEST_F(PooledMemory, OfAPoolOverAPoolTheSmallerPartIsTheArrays) {
  Object outer{.address = kPooledMemoryBase, .bytes = 4096, .device = 1},
      inner{.address = kPooledMemoryBase + 512, .bytes = 512, .device = 1};
  for (const Object* each : {&inner, &outer})
    memory::pooled_memory::made(reinterpret_cast<uintptr_t>(each), sizeof *each);
  EXPECT_EQ(memory::provenance::block_at(kPooledMemoryBase + 600)->bytes, 512u);
  EXPECT_EQ(memory::provenance::block_at(kPooledMemoryBase)->bytes, 4096u);
}

namespace devtrace::memory::host_memory {
namespace {

// Two numbers of 32 bits in one word, as kernels are given sizes and strides.
uintptr_t sizes(uintptr_t high, uintptr_t low) {
  return high << 32 | low;
}

TEST(HarmlessWords, PairsOfSmallNumbersAreAllRemembered) {
  forget_harmless();
  for (uintptr_t high = 1; high <= 32; ++high) remember_harmless(sizes(high, 8));
  for (uintptr_t high = 1; high <= 32; ++high) EXPECT_FALSE(possible(sizes(high, 8))) << high;
}

TEST(HarmlessWords, ArePossibleAgainOnceForgotten) {
  remember_harmless(sizes(3, 8));
  EXPECT_FALSE(possible(sizes(3, 8)));
  forget_harmless();
  EXPECT_TRUE(possible(sizes(3, 8)));
  EXPECT_TRUE(possible(sizes(4, 8)));
}

// A Linux of 48 bits puts the first stack and what is mapped without a hint at the end of user space.
TEST(HarmlessWords, TheEndOfUserSpaceIsInRange) {
#ifdef __x86_64__
  EXPECT_TRUE(in_range(0x7fff'ffff'e000));
  EXPECT_FALSE(in_range(0x8000'0000'0000));
#else
  EXPECT_TRUE(in_range(0xffff'ffff'e000));
  EXPECT_FALSE(in_range(0x1'0000'0000'0000));
#endif
}

TEST(HarmlessWords, AllOfAPageIsRemembered) {
  forget_harmless();
  remember_harmless(sizes(3, 8));
  EXPECT_FALSE(possible(sizes(3, 4095)));
  EXPECT_TRUE(possible(sizes(3, 4096)));
}

}  // namespace
}  // namespace devtrace::memory::host_memory
