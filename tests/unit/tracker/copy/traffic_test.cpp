#include "tracker/copy/traffic.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "tests/unit/tracker/quiet.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/copy/copy_times.h"
#include "tracker/copy/sharded_counters.h"
#include "tracker/events.h"
#include "tracker/log/log.h"
#include "tracker/memory/ownership.h"

namespace {

using namespace devtrace;
using events::Copy;
using events::Direction;
using report::Json;

const bool quiet = test::quiet();

TEST(ShardedCounters, AddsUpByKeyInEveryShard) {
  static copy::ShardedCounters counters;
  for (unsigned shard = 0; shard < copy::ShardedCounters::kOwnShards + copy::ShardedCounters::kSharedShards; ++shard)
    for (uint64_t key = 1; key <= 100; ++key)
      for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(counters.add(shard, key << 20, key), i);
  std::map<uint64_t, uint64_t> bytes, times;
  counters.for_each([&](uint64_t key, uint64_t sum, uint64_t count, uint64_t) {
    bytes[key] += sum;
    times[key] += count;
  });
  ASSERT_EQ(bytes.size(), 100u);
  for (uint64_t key = 1; key <= 100; ++key) {
    EXPECT_EQ(bytes[key << 20], 16 * 3 * key);
    EXPECT_EQ(times[key << 20], 16u * 3);
  }
  counters.clear();
  counters.for_each([](uint64_t, uint64_t, uint64_t, uint64_t) { FAIL(); });
}

TEST(ShardedCounters, SaysWhenItIsFullAndKeepsWhatItHas) {
  static copy::ShardedCounters counters;
  size_t kept = 0;
  for (uint64_t key = 1; key <= 3 * copy::ShardedCounters::kCells; ++key)
    kept += counters.add(0, key * 0x10001, 1) != copy::ShardedCounters::kFull;
  EXPECT_GT(kept, copy::ShardedCounters::kCells * 3 / 4);
  EXPECT_LE(kept, copy::ShardedCounters::kCells);
  size_t found = 0;
  counters.for_each([&](uint64_t, uint64_t, uint64_t, uint64_t) { ++found; });
  EXPECT_EQ(found, kept);
}

TEST(CopyTimes, TheCopiesOfOneCallAreTimedTogetherIfTheyAreOneSites) {
  constexpr uint64_t kSite = 5 << 16, kOther = 6 << 16;
  for (int i = 0; i < 8; ++i) copy::copy_times::expect_one_of_several(7001, kSite);
  copy::copy_times::took(7001, 3000, 10);  // CUDA may make several of them one, and all of them a few
  copy::copy_times::took(7001, 5000, 20);
  for (const uint64_t site : {kSite, kOther}) copy::copy_times::expect_one_of_several(7002, site);
  copy::copy_times::took(7002, 100, 5);
  for (const uint64_t site : {uint64_t{0}, kOther}) copy::copy_times::expect_one_of_several(7003, site);
  copy::copy_times::took(7003, 100, 5);
  copy::copy_times::expect(7004, kOther);
  copy::copy_times::took(7004, 400, 40);
  const auto totals = copy::copy_times::totals();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals.at(kSite).copies, 8u);
  EXPECT_EQ(totals.at(kSite).bytes, 8000u);
  EXPECT_EQ(totals.at(kSite).nanoseconds, 30u);
  EXPECT_EQ(totals.at(kOther).copies, 1u);
  EXPECT_EQ(totals.at(kOther).nanoseconds, 40u);
  copy::copy_times::clear();
}

TEST(ShardedCounters, LosesNothingOfManyThreads) {
  static copy::ShardedCounters counters;
  std::vector<std::thread> threads;
  for (int n = 0; n < 24; ++n)
    threads.emplace_back([] {
      const unsigned shard = counters.shard_for_new_thread();
      for (int i = 0; i < 20'000; ++i) counters.add(shard, 1 + i % 7, 3);
    });
  for (std::thread& thread : threads) thread.join();
  uint64_t all = 0;
  counters.for_each([&](uint64_t, uint64_t bytes, uint64_t, uint64_t) { all += bytes; });
  EXPECT_EQ(all, 24u * 20'000 * 3);
}

constexpr uintptr_t memory_of(int device) {
  return 0x7600'0000'0000 + (static_cast<uintptr_t>(device) << 32);
}
constexpr uintptr_t kHost = 0x5700'0000'0000;

void copy(uintptr_t to, uintptr_t from, size_t bytes, Direction direction = Direction::undeclared) {
  events::copied({.to = reinterpret_cast<const void*>(to),
                  .from = reinterpret_cast<const void*>(from),
                  .bytes = bytes,
                  .direction = direction,
                  .function = "cudaMemcpy"});
}

// Every test has devices of its own: what one has moved stays in the counters.
class TrafficOf : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(quiet);
    set_platform(test::platform_of_device_0());
    for (int device = 10; device < 40; ++device)
      memory::ownership::add({memory_of(device), 1 << 30, Device::cuda(device)});
    log::open();
  }
  static void TearDownTestSuite() {
    for (int device = 10; device < 40; ++device) memory::ownership::remove(memory_of(device));
  }

  // The records that the next writing adds and that name the device.
  static std::vector<Json> written(int device) {
    const size_t before = test::records().size();
    copy::traffic::write_rest();
    std::vector<Json> found;
    const auto all = test::records();
    for (size_t i = before; i < all.size(); ++i)
      if (all[i]["record"] == "traffic" &&
          (all[i]["from"] == Device::cuda(device).name() || all[i]["to"] == Device::cuda(device).name()))
        found.push_back(all[i]);
    return found;
  }
};

TEST_F(TrafficOf, AllThatMovesBetweenTwoDevices) {
  for (size_t i = 1; i <= 5; ++i) copy(memory_of(10) + i * 4096, memory_of(11), 1000 * i);
  const auto records = written(10);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0]["from"], "cuda:11");
  EXPECT_EQ(records[0]["to"], "cuda:10");
  EXPECT_EQ(records[0]["bytes"], 15000);
  EXPECT_EQ(records[0]["copies"], 5);
  EXPECT_EQ(records[0]["staged"], true);
  EXPECT_FALSE(records[0].contains("python")) << "there is none";
  EXPECT_EQ(records[0]["first"]["thread"], thread_state::id());
  EXPECT_NEAR(records[0]["first"]["time"].get<double>(), process_start::now(), 5.0);
  EXPECT_TRUE(written(10).empty()) << "what has not grown is not written again";
}

TEST_F(TrafficOf, TheHostIsADevice) {
  copy(memory_of(12), kHost, 70);
  copy(kHost, memory_of(12), 7, Direction::device_to_host);
  const auto records = written(12);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["from"], "cpu");
  EXPECT_EQ(records[0]["bytes"], 70);
  EXPECT_EQ(records[1]["to"], "cpu");
  EXPECT_EQ(records[1]["bytes"], 7);
  EXPECT_FALSE(records[0].contains("staged"));
}

TEST_F(TrafficOf, NothingThatStaysWhereItIsAndNothingUnknown) {
  copy(memory_of(13), memory_of(13) + 4096, 4096);
  copy(kHost, kHost + 4096, 4096);
  copy(memory_of(13), kHost, 0);
  copy(kHost, memory_of(13), 9, Direction::device_to_device);  // managed memory, perhaps
  EXPECT_TRUE(written(13).empty());
}

TEST_F(TrafficOf, WhatHasNoAddressIsWhereTheCallerSays) {
  events::copied({.from = reinterpret_cast<const void*>(memory_of(18)), .bytes = 10, .to_device = 19});
  copy(0, memory_of(18), 7);                               // an array: of whichever device
  copy(0, memory_of(18), 7, Direction::device_to_device);  // the same
  const auto records = written(18);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0]["to"], "cuda:19");
  EXPECT_EQ(records[0]["bytes"], 10);
}

TEST_F(TrafficOf, DirectCopiesAreToldFromStagedOnes) {
  const auto move = [](size_t bytes) { copy(memory_of(14), memory_of(15), bytes); };
  for (int allowed = 0; allowed < 2; ++allowed) {
    if (allowed) events::peers_changed(15, 14, true, false);
    move(allowed ? 200 : 100);
  }
  const auto records = written(14);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["staged"], false);
  EXPECT_EQ(records[0]["bytes"], 200);
  EXPECT_EQ(records[1]["staged"], true);
  EXPECT_EQ(records[1]["bytes"], 100);
}

TEST_F(TrafficOf, ASiteKeepsItsNumberAndTheLastRecordHoldsAll) {
  std::vector<Json> records;
  for (int round = 0; round < 2; ++round) {
    copy(memory_of(16), kHost, 100);
    for (const Json& record : written(16)) records.push_back(record);
  }
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["id"], records[1]["id"]);
  EXPECT_EQ(records[0]["bytes"], 100);
  EXPECT_EQ(records[1]["bytes"], 200);
}

}  // namespace
