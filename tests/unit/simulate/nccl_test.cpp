// What ranks give each other in shared memory: without streams, by threads and processes that are the ranks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <thread>
#include <vector>

#include "simulate/nccl/exchange.h"

namespace {

using namespace devtrace::simulate::nccl;

std::unique_ptr<Place> enter(const ncclUniqueId& id, int rank, int size) {
  auto place = std::make_unique<Place>();
  place->region = Region::open(id);
  place->rank = rank;
  place->size = size;
  EXPECT_TRUE(place->region);
  EXPECT_EQ(enter(*place, Identity()), "");
  return place;
}

class Ranks : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Region::create(&id_)); }
  void TearDown() override { Region::close(id_); }

  void enter_all(int size) {
    for (int rank = 0; rank < size; ++rank) places_.push_back(enter(id_, rank, size));
  }
  Region& region() { return *places_[0]->region; }

  // Every rank sends four times its number plus 0 to 3, of which `count` are given to each.
  std::vector<std::vector<int>> collective(OperationKind kind, uint64_t count, int root = 0, ncclRedOp_t op = ncclSum) {
    std::vector<std::vector<int>> sent(places_.size()), received(places_.size());
    std::vector<Exchange> exchanges(places_.size());
    std::vector<Waiting> all;
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      for (int i = 0; i < 4; ++i) sent[rank].push_back(4 * static_cast<int>(rank) + i);
      received[rank].assign(8, -1);
      exchanges[rank].call = {kind, ncclInt32, op, root, count};
      exchanges[rank].send = sent[rank].data();
      exchanges[rank].receive = received[rank].data();
      all.push_back({places_[rank].get(), &exchanges[rank]});
    }
    finish(all);
    return received;
  }

  ncclUniqueId id_;
  std::vector<std::unique_ptr<Place>> places_;
};

using Rows = std::vector<std::vector<int>>;

TEST_F(Ranks, EachKindGivesEachRankItsOwn) {
  enter_all(2);
  EXPECT_EQ(collective(OperationKind::kAllReduce, 4),
            (Rows{{4, 6, 8, 10, -1, -1, -1, -1}, {4, 6, 8, 10, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kReduce, 2, 1),
            (Rows{{-1, -1, -1, -1, -1, -1, -1, -1}, {4, 6, -1, -1, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kBroadcast, 2, 1),
            (Rows{{4, 5, -1, -1, -1, -1, -1, -1}, {4, 5, -1, -1, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kAllGather, 4), (Rows{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(collective(OperationKind::kReduceScatter, 2),
            (Rows{{4, 6, -1, -1, -1, -1, -1, -1}, {8, 10, -1, -1, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kAllToAll, 2),
            (Rows{{0, 1, 4, 5, -1, -1, -1, -1}, {2, 3, 6, 7, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kGather, 2, 1),
            (Rows{{-1, -1, -1, -1, -1, -1, -1, -1}, {0, 1, 4, 5, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kScatter, 2, 1),
            (Rows{{4, 5, -1, -1, -1, -1, -1, -1}, {6, 7, -1, -1, -1, -1, -1, -1}}));
  EXPECT_EQ(collective(OperationKind::kAllReduce, 2, 0, ncclMax)[0][1], 5);
  EXPECT_EQ(region().shared().block_count, 0u) << "all memory was given back";
}

TEST_F(Ranks, SumsAreTakenInTheRanksOrder) {
  enter_all(3);
  const float sent[] = {1e8f, 1.0f, -1e8f};  // 0 in this order, 1 in another one
  float received[3] = {};
  std::vector<std::thread> threads;
  for (const size_t rank : {2u, 0u, 1u})
    threads.emplace_back([&, rank] {
      Exchange exchange;
      exchange.call = {OperationKind::kAllReduce, ncclFloat32, ncclSum, 0, 1};
      exchange.send = &sent[rank];
      exchange.receive = &received[rank];
      finish({{places_[rank].get(), &exchange}});
    });
  for (std::thread& each : threads) each.join();
  for (const float each : received) EXPECT_EQ(each, 0.0f);
}

TEST_F(Ranks, AMessageIsSentBeforeSomebodyReceivesIt) {
  enter_all(2);
  constexpr int kMessages = 5;
  for (int i = 0; i < kMessages; ++i) {
    Exchange sends;
    sends.call = {OperationKind::kSend, ncclInt32, ncclSum, 1, 1};
    sends.send = &i;
    EXPECT_TRUE(post(*places_[0], sends));
    EXPECT_TRUE(take(*places_[0], sends));
  }
  for (int i = 0; i <= kMessages; ++i) {
    int received = -1;
    Exchange receives;
    receives.call = {OperationKind::kReceive, ncclInt32, ncclSum, 0, 1};
    receives.receive = &received;
    EXPECT_TRUE(post(*places_[1], receives));
    EXPECT_EQ(take(*places_[1], receives), i < kMessages);
    EXPECT_EQ(received, i < kMessages ? i : -1);
  }
}

TEST_F(Ranks, ASignalIsRaisedBeforeSomebodyWaitsForItAndTakenOnce) {
  enter_all(3);
  int sent = 7, received = 0;
  const auto signal = [&](size_t from) {
    Exchange puts;
    puts.call = {OperationKind::kPutSignal, ncclInt32, ncclSum, 2, 1};
    puts.send = &sent;
    puts.receive = &received;
    EXPECT_TRUE(post(*places_[from], puts));
    EXPECT_TRUE(take(*places_[from], puts));
  };
  const auto waits = [&](std::vector<Signals> awaited) {
    Exchange waiting;
    waiting.call = {OperationKind::kWaitSignal, ncclInt8, ncclSum, 0, 0};
    waiting.awaited = std::move(awaited);
    return post(*places_[2], waiting) && take(*places_[2], waiting);
  };
  EXPECT_FALSE(waits({{0, 1}}));
  signal(0);
  EXPECT_EQ(received, 7);
  EXPECT_FALSE(waits({{0, 1}, {1, 1}})) << "none is taken where one has not come";
  signal(1);
  EXPECT_TRUE(waits({{0, 1}, {1, 1}}));
  EXPECT_FALSE(waits({{0, 1}}));
}

TEST_F(Ranks, WhatHasNoRoomWaitsForIt) {
  enter_all(2);
  const int number = 7;
  std::vector<Exchange> sent(std::size(region().shared().messages) + 1);
  for (Exchange& each : sent) {
    each.call = {OperationKind::kSend, ncclInt32, ncclSum, 1, 1};
    each.send = &number;
    EXPECT_EQ(post(*places_[0], each), &each != &sent.back());
  }
  int received = 0;
  Exchange receives;
  receives.call = {OperationKind::kReceive, ncclInt32, ncclSum, 0, 1};
  receives.receive = &received;
  EXPECT_TRUE(post(*places_[1], receives));
  EXPECT_TRUE(take(*places_[1], receives));
  EXPECT_TRUE(post(*places_[0], sent.back()));
}

TEST_F(Ranks, TheyNoticeThatTheyCallDifferentThings) {
  enter_all(2);
  int number[4] = {};
  Exchange first, second;
  first.call = {OperationKind::kAllReduce, ncclInt32, ncclSum, 0, 4};
  second.call = {OperationKind::kAllReduce, ncclInt32, ncclSum, 0, 2};
  first.receive = second.receive = number;
  first.send = second.send = number;
  EXPECT_TRUE(post(*places_[0], first));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(post(*places_[1], second));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "devtrace: NCCL: rank 1 calls AllReduce of 2 int32 where rank 0 calls AllReduce of 4 int32\n");
  EXPECT_EQ(places_[1]->error, ncclInvalidUsage);
}

TEST_F(Ranks, OneThatDiesIsNamedAndTheOthersWaitUntilTheyAreAborted) {
  places_.push_back(enter(id_, 0, 2));
  const pid_t child = fork();
  if (child == 0) {
    enter(id_, 1, 2);
    raise(SIGKILL);
  }
  EXPECT_EQ(meet(*places_[0], nullptr, {}), "");
  int number = 1;
  Exchange exchange;
  exchange.call = {OperationKind::kAllReduce, ncclInt32, ncclSum, 0, 1};
  exchange.send = exchange.receive = &number;
  std::thread waits([&] { finish({{places_[0].get(), &exchange}}); });
  while (places_[0]->error == ncclSuccess) usleep(1000);  // before anybody has waited for the process
  EXPECT_EQ(places_[0]->error, ncclRemoteError);
  EXPECT_EQ(places_[0]->why, "rank 1 (process " + std::to_string(child) +
                                 ") has ended, and rank 0 waits for it in AllReduce of 1 int32");
  places_[0]->aborted = true;
  leave(*places_[0]);
  waits.join();
  EXPECT_EQ(number, 1);
  waitpid(child, nullptr, 0);
}

TEST_F(Ranks, OneThatDiesWithTheLockGivesItBack) {
  places_.push_back(enter(id_, 0, 2));
  const pid_t child = fork();
  if (child == 0) {
    const RegionLock lock(region());
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const RegionLock lock(region());
  EXPECT_TRUE(region().shared().broken);
}

TEST_F(Ranks, NobodyComesByTheIdOfAProcessThatHasEnded) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    ncclUniqueId id;
    Region::create(&id);
    _exit(write(pipes[1], &id, sizeof id) == sizeof id ? 0 : 1);
  }
  waitpid(child, nullptr, 0);
  ncclUniqueId id;
  ASSERT_EQ(read(pipes[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  EXPECT_FALSE(Region::open(id));
  EXPECT_FALSE(Region::open(ncclUniqueId())) << "no id of ours";
  close(pipes[0]);
  close(pipes[1]);
}

TEST(Reduction, Float8) {
  const auto sum = [](uint8_t a, uint8_t b, ncclDataType_t type) {
    uint8_t out = 0;
    reduce({&a, &b}, &out, 1, type, ncclSum);
    return out;
  };
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    const uint8_t zero = bits & 0x80;  // of its sign
    if ((code & 0x7f) < 0x7f) {
      EXPECT_EQ(sum(bits, zero, ncclFloat8e4m3), bits);
    }
    if ((code & 0x7f) < 0x7c) {
      EXPECT_EQ(sum(bits, zero, ncclFloat8e5m2), bits);
    }
  }
  EXPECT_EQ(sum(0x38, 0x38, ncclFloat8e4m3), 0x40) << "1 + 1";
  EXPECT_EQ(sum(0x3c, 0x3c, ncclFloat8e5m2), 0x40) << "1 + 1";
  EXPECT_EQ(sum(0x01, 0x01, ncclFloat8e4m3), 0x02) << "subnormal";
  EXPECT_EQ(sum(0x40, 0x31, ncclFloat8e4m3), 0x42) << "2 + 0.5625, to 2.5";
  EXPECT_EQ(sum(0x7e, 0x7e, ncclFloat8e4m3), 0x7e) << "no more than 448";
  EXPECT_EQ(sum(0x7f, 0x38, ncclFloat8e4m3) & 0x7f, 0x7f) << "not a number";
}

TEST(Reduction, ScaledBeforeASum) {
  float part[] = {1, 2, 3};
  Scale by = {true, nullptr, {}};
  const float half = 0.5f;
  by.at = &half;
  scale(part, 3, ncclFloat32, by);
  EXPECT_EQ(part[2], 1.5f);
}

}  // namespace
