// Where memory comes from, and who chose the current device.
#include "tracker/memory/provenance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/unit/emulated.h"
#include "tracker/base/clock.h"
#include "tracker/base/thread_state.h"
#include "tracker/memory/device_history.h"

namespace memory = devtrace::memory;
using devtrace::Device;

namespace {
// Addresses of a region that no other test uses.
constexpr uintptr_t kProvenanceBase = 0x7000'0000'0000;
}  // namespace

TEST(Provenance, AGivenBlockIsFoundByItsStartAndByAnyAddressInside) {
  memory::provenance::given(kProvenanceBase, 4096, Device::cuda(1));
  for (uintptr_t inside : {kProvenanceBase, kProvenanceBase + 1, kProvenanceBase + 4095}) {
    const auto block = memory::provenance::block_at(inside);
    ASSERT_TRUE(block) << inside - kProvenanceBase;
    EXPECT_EQ(block->address, kProvenanceBase);
    EXPECT_EQ(block->allocated.device, Device::cuda(1));
    EXPECT_FALSE(block->moved_from.known());
  }
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 4096));
  memory::provenance::taken(kProvenanceBase);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase));
}

TEST(Provenance, TheAllocationAnswersOnlyWhereNoBlockDoes) {
  memory::provenance::allocated(kProvenanceBase, 2 << 20, Device::cuda(0));
  memory::provenance::given(kProvenanceBase, 512, Device::cuda(0));
  EXPECT_EQ(memory::provenance::block_at(kProvenanceBase + 100)->bytes, 512u);
  EXPECT_EQ(memory::provenance::block_at(kProvenanceBase + 600)->bytes, size_t{2} << 20);
  memory::provenance::taken(kProvenanceBase);
  EXPECT_EQ(memory::provenance::block_at(kProvenanceBase + 100)->bytes, size_t{2} << 20);
  memory::provenance::freed(kProvenanceBase);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 100));
}

TEST(Provenance, ACopyFromAnotherDeviceByTheSameStatementIsAMove) {
  memory::provenance::given(kProvenanceBase, 512, Device::cpu());
  const auto source = memory::provenance::block_at(kProvenanceBase);
  memory::provenance::given(kProvenanceBase + 4096, 512, Device::cuda(0));
  memory::provenance::copied(kProvenanceBase + 4096, kProvenanceBase);
  auto moved = memory::provenance::block_at(kProvenanceBase + 4096);
  EXPECT_EQ(moved->moved_from, Device::cpu());
  EXPECT_EQ(moved->created.time, source->allocated.time);
  EXPECT_EQ(moved->created.device, Device::cpu());
  // And on to a third device: still created where it first was.
  memory::provenance::given(kProvenanceBase + 8192, 512, Device::cuda(1));
  memory::provenance::copied(kProvenanceBase + 8192, kProvenanceBase + 4096);
  moved = memory::provenance::block_at(kProvenanceBase + 8192);
  EXPECT_EQ(moved->moved_from, Device::cuda(0));
  EXPECT_EQ(moved->created.device, Device::cpu());
  for (uintptr_t address : {kProvenanceBase, kProvenanceBase + 4096, kProvenanceBase + 8192})
    memory::provenance::taken(address);
}

TEST(Provenance, MovesAreRememberedWhenTheirBlocksAreGone) {
  memory::provenance::forget_all();
  memory::provenance::given(kProvenanceBase, 512, Device::cpu());
  const uint32_t thread = devtrace::thread_state::id();
  std::vector<uint64_t> times;
  for (int round = 0; round < 1000; ++round) {
    memory::provenance::given(kProvenanceBase + 4096, 512, Device::cuda(round % 2));
    memory::provenance::copied(kProvenanceBase + 4096, kProvenanceBase);
    times.push_back(memory::provenance::block_at(kProvenanceBase + 4096)->allocated.time);
    memory::provenance::taken(kProvenanceBase + 4096);
  }
  const auto moves = memory::provenance::recent_moves(thread, Device::cuda(1));
  ASSERT_FALSE(moves.empty());
  EXPECT_LT(moves.size(), times.size() / 2);
  EXPECT_EQ(moves.front().time, times.back());
  for (const auto& each : moves) EXPECT_EQ(each.device, Device::cuda(1));
  EXPECT_TRUE(memory::provenance::recent_moves(thread + 1, Device::cuda(1)).empty());
  EXPECT_TRUE(memory::provenance::recent_moves(thread, Device::cpu()).empty());
  memory::provenance::taken(kProvenanceBase);
  memory::provenance::forget_all();
  EXPECT_TRUE(memory::provenance::recent_moves(thread, Device::cuda(1)).empty());
}

TEST(Provenance, ASliceThatIsMovedWasCreatedWithItsBlock) {
  memory::provenance::given(kProvenanceBase, 100'000, Device::cpu());
  const auto source = memory::provenance::block_at(kProvenanceBase);
  memory::provenance::given(kProvenanceBase + 200'000, 512, Device::cuda(0));
  memory::provenance::copied(kProvenanceBase + 200'000, kProvenanceBase + 99'000);
  const auto moved = memory::provenance::block_at(kProvenanceBase + 200'000);
  EXPECT_EQ(moved->moved_from, Device::cpu());
  EXPECT_EQ(moved->created.time, source->allocated.time);
  for (uintptr_t address : {kProvenanceBase, kProvenanceBase + 200'000}) memory::provenance::taken(address);
}

TEST(Provenance, EveryAddressOfEverySizeFindsItsBlock) {
  std::mt19937_64 random(11);
  std::vector<std::pair<uintptr_t, size_t>> blocks;
  uintptr_t next = kProvenanceBase;
  for (int i = 0; i < 3000; ++i) {
    const size_t bytes = 1 + random() % (size_t{1} << (1 + random() % 24));
    blocks.emplace_back(next, bytes);
    memory::provenance::given(next, bytes, Device::cpu());
    next += (bytes + 31) / 16 * 16;  // a gap after each
  }
  for (const auto& [address, bytes] : blocks) {
    for (const uintptr_t inside : {address, address + bytes / 2, address + bytes - 1}) {
      const auto block = memory::provenance::block_at(inside);
      ASSERT_TRUE(block) << bytes;
      EXPECT_EQ(block->address, address);
    }
    EXPECT_FALSE(memory::provenance::block_at(address + bytes)) << bytes;
  }
  // Every second one goes; the others stay findable.
  for (size_t i = 0; i < blocks.size(); i += 2) memory::provenance::taken(blocks[i].first);
  for (size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ(memory::provenance::block_at(blocks[i].first + blocks[i].second - 1).has_value(), i % 2 == 1);
  for (size_t i = 1; i < blocks.size(); i += 2) memory::provenance::taken(blocks[i].first);
}

TEST(Provenance, ABlockGivenAgainWithAnotherSizeIsFoundByTheNewOne) {
  memory::provenance::given(kProvenanceBase, 1 << 20, Device::cpu());
  memory::provenance::given(kProvenanceBase, 64, Device::cpu());
  EXPECT_TRUE(memory::provenance::block_at(kProvenanceBase + 63));
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 64));
  memory::provenance::taken(kProvenanceBase);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase));
}

TEST(Provenance, ABlockGivenAgainHasNoMoveOfTheOneBefore) {
  memory::provenance::given(kProvenanceBase, 512, Device::cpu());
  for (const bool taken : {true, false}) {
    memory::provenance::given(kProvenanceBase + 4096, 512, Device::cuda(0));
    memory::provenance::copied(kProvenanceBase + 4096, kProvenanceBase);
    ASSERT_TRUE(memory::provenance::block_at(kProvenanceBase + 4096)->moved_from.known());
    if (taken) memory::provenance::taken(kProvenanceBase + 4096);
    memory::provenance::given(kProvenanceBase + 4096, 512, Device::cuda(1));
    EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 4096)->moved_from.known());
    EXPECT_EQ(memory::provenance::block_at(kProvenanceBase + 4096)->created.time, 0U);
    memory::provenance::taken(kProvenanceBase + 4096);
  }
  memory::provenance::taken(kProvenanceBase);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Wherever the tables stand in their growth.
TEST(Provenance, ALiveBlockTakesAHundredBytesAtMost) {
  if (devtrace::emulated_large_pages()) GTEST_SKIP() << "qemu's user mode keeps memory that is given back";
  const auto resident = [] {
    FILE* file = std::fopen("/proc/self/statm", "r");
    long all = 0, here = 0;
    if (!file || std::fscanf(file, "%ld %ld", &all, &here) != 2) here = 0;
    if (file) std::fclose(file);
    return here * sysconf(_SC_PAGESIZE);
  };
  constexpr uintptr_t kFar = kProvenanceBase / 2;
  constexpr long kMost = 1'000'000;
  const long before = resident();
  ASSERT_GT(before, 0);
  for (long count = 0; count < kMost;) {
    memory::provenance::given(kFar + static_cast<uintptr_t>(count) * 512, 512, Device::cuda(0));
    if (++count % 50'000 != 0 || count < 100'000) continue;
    EXPECT_LE((resident() - before) / count, 100) << count << " blocks";
  }
  for (long i = 0; i < kMost; ++i) memory::provenance::taken(kFar + static_cast<uintptr_t>(i) * 512);
}
#endif

TEST(Provenance, ACopyOnTheSameDeviceOrByAnotherThreadIsNone) {
  memory::provenance::given(kProvenanceBase, 512, Device::cuda(0));
  memory::provenance::given(kProvenanceBase + 4096, 512, Device::cuda(0));
  memory::provenance::copied(kProvenanceBase + 4096, kProvenanceBase);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 4096)->moved_from.known());
  memory::provenance::given(kProvenanceBase + 8192, 512, Device::cuda(1));
  std::thread([] { memory::provenance::copied(kProvenanceBase + 8192, kProvenanceBase); }).join();
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 8192)->moved_from.known());
  for (uintptr_t address : {kProvenanceBase, kProvenanceBase + 4096, kProvenanceBase + 8192})
    memory::provenance::taken(address);
}

// Deletion shifts entries back; a mistake there loses or resurrects blocks. Held against a map from the standard
// library.
TEST(Provenance, AgreesWithAMapUnderChurn) {
  std::mt19937 random(7);
  std::unordered_map<uintptr_t, size_t> expected;
  for (int i = 0; i < 200'000; ++i) {
    const uintptr_t address = kProvenanceBase + (random() % 4096) * 512;
    if (random() % 2) {
      const size_t bytes = 1 + random() % 512;
      memory::provenance::given(address, bytes, Device::cuda(0));
      expected[address] = bytes;
    } else {
      memory::provenance::taken(address);
      expected.erase(address);
    }
  }
  for (uintptr_t address = kProvenanceBase; address < kProvenanceBase + 4096 * 512; address += 512) {
    const auto block = memory::provenance::block_at(address);
    ASSERT_EQ(block.has_value(), expected.contains(address));
    if (block) {
      EXPECT_EQ(block->bytes, expected[address]);
      memory::provenance::taken(address);
    }
  }
}

TEST(Provenance, ThreadsDoNotLoseEachOthersBlocks) {
  constexpr int kThreads = 8, kBlocks = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < kBlocks; ++i)
        memory::provenance::given(kProvenanceBase + (static_cast<uintptr_t>(i) * kThreads + t) * 512, 512,
                                  Device::cuda(t));
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kBlocks * kThreads; ++i) {
    const uintptr_t address = kProvenanceBase + static_cast<uintptr_t>(i) * 512;
    const auto block = memory::provenance::block_at(address);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->allocated.device, Device::cuda(i % kThreads));
    memory::provenance::taken(address);
  }
}

TEST(Provenance, ABlockThatExistedIsKnownAndWasMadeNobodySawWhere) {
  memory::provenance::begin_existing();
  memory::provenance::existed(kProvenanceBase, 4096, Device::cuda(1));
  memory::provenance::end_existing();
  const auto block = memory::provenance::block_at(kProvenanceBase + 100);
  ASSERT_TRUE(block);
  EXPECT_TRUE(block->existed);
  EXPECT_EQ(block->bytes, 4096u);
  EXPECT_EQ(block->allocated.device, Device::cuda(1));
  EXPECT_EQ(block->allocated.stack, 0u);
  // Its end is noticed as any block's, and what takes its place is newer.
  memory::provenance::given(kProvenanceBase, 512, Device::cuda(0));
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase)->existed);
  memory::provenance::taken(kProvenanceBase);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 100));
}

TEST(Provenance, WhatEndsWhileTheExistingAreToldIsNotBelievedToLive) {
  memory::provenance::begin_existing();
  memory::provenance::taken(kProvenanceBase);  // after the list was made, before it is read
  memory::provenance::existed(kProvenanceBase, 4096, Device::cuda(1));
  memory::provenance::existed(kProvenanceBase + 8192, 4096, Device::cuda(1));
  memory::provenance::given(kProvenanceBase + 16384, 512, Device::cuda(1));
  memory::provenance::existed(kProvenanceBase + 16384, 4096, Device::cuda(1));  // of a larger one that was there
  memory::provenance::end_existing();
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase));
  EXPECT_TRUE(memory::provenance::block_at(kProvenanceBase + 8192));
  EXPECT_EQ(memory::provenance::block_at(kProvenanceBase + 16384)->bytes, 512u);
  memory::provenance::taken(kProvenanceBase + 8192);
  memory::provenance::taken(kProvenanceBase + 16384);
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase + 8192));
}

TEST(Provenance, WhatWasMovedFromABlockThatExistedSaysSo) {
  memory::provenance::begin_existing();
  memory::provenance::existed(kProvenanceBase, 4096, Device::cuda(1));
  memory::provenance::end_existing();
  memory::provenance::given(kProvenanceBase + 8192, 512, Device::cuda(0));
  memory::provenance::copied(kProvenanceBase + 8192, kProvenanceBase + 64);
  const auto moved = memory::provenance::block_at(kProvenanceBase + 8192);
  EXPECT_EQ(moved->moved_from, Device::cuda(1));
  EXPECT_TRUE(moved->existed);
  EXPECT_EQ(moved->created.time, 0u);
  EXPECT_NE(moved->allocated.time, 0u);
  memory::provenance::forget_all();
  EXPECT_FALSE(memory::provenance::block_at(kProvenanceBase));
}

namespace history = devtrace::memory::device_history;

TEST(DeviceHistory, AThreadThatChoseNothingHasTheFirstDevice) {
  std::thread([] {
    const auto then = history::held_at(devtrace::thread_state::id(), devtrace::now_coarse());
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
  const auto then = history::held_at(thread, devtrace::now_coarse());
  ASSERT_TRUE(then.choice);
  EXPECT_EQ(then.choice->device, 1);
  EXPECT_FALSE(then.by_default);
  EXPECT_TRUE(history::held_at(thread, before).by_default);
}

TEST(DeviceHistory, ADroppedChoiceIsNotTakenForNone) {
  uint32_t thread = 0;
  const uint64_t before = devtrace::now_coarse() - 1;
  std::thread([&] {
    thread = devtrace::thread_state::id();
    for (int i = 0; i < 20; ++i) history::chosen(i % 2 + i);  // another one each time: none gives way
    EXPECT_LE(history::kept().size(), 8u);
  }).join();
  if (history::held_at(thread, before).choice) GTEST_SKIP() << "one tick of the clock";
  EXPECT_FALSE(history::held_at(thread, before).by_default);
}

TEST(DeviceHistory, WhatWasChosenLaterInTheSameTickIsNotTakenForTheEarlierChoice) {
  std::thread([] {
    const uint32_t thread = devtrace::thread_state::id();
    for (int device = 1; device < 8; ++device) {
      history::chosen(device);
      const uint64_t between = devtrace::now_in_order(false);
      history::chosen(device + 100);
      const auto then = history::held_at(thread, between);
      ASSERT_TRUE(then.choice);
      EXPECT_EQ(then.choice->device, device);
    }
  }).join();
}
