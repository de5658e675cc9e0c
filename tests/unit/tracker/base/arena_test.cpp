// Memory that is never given back, and maps by address.
#include "tracker/base/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/emulated.h"
#include "tracker/base/address_map.h"
#include "tracker/base/spinlock.h"

namespace devtrace {
namespace {

constinit Arena static_arena;  // fails to compile when a constructor would have to run

TEST(Arena, AlignsAndZeroes) {
  for (size_t alignment : {1, 2, 8, 16, 64, 4096}) {
    for (size_t bytes : {1, 7, 100, 5000, 200'000}) {
      auto* place = static_cast<unsigned char*>(static_arena.allocate(bytes, alignment));
      ASSERT_NE(place, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % alignment, 0u) << bytes << " aligned to " << alignment;
      EXPECT_TRUE(std::all_of(place, place + bytes, [](unsigned char byte) { return byte == 0; }));
      std::memset(place, 0xff, bytes);  // a later block that overlaps would not be zero
    }
  }
}

TEST(Arena, GivesBackWhatWasLarge) {
  Arena arena;
  constexpr size_t kMany = size_t{1} << 20;
  int* const gone = arena.make_array<int>(kMany);
  int* const read = arena.make_array<int>(kMany);
  int* const small = arena.make_array<int>(10);
  const size_t held = arena.bytes_held();
  gone[5] = read[5] = small[5] = 1;
  arena.release(small, 10);
  arena.release_memory(small, 10);
  EXPECT_EQ(arena.bytes_held(), held);
  EXPECT_EQ(small[5], 1);
  arena.release(gone, kMany);
  arena.release_memory(read, kMany);
  EXPECT_EQ(arena.bytes_held(), held - 2 * kMany * sizeof(int));
  EXPECT_EQ(read[5], 0);
  unsigned char resident;
  EXPECT_EQ(::mincore(gone, 1, &resident), -1) << "its addresses are still there";
}

TEST(Arena, ThreadsGetDisjointBlocks) {
  Arena arena;
  constexpr int kThreads = 8, kBlocks = 20'000;
  struct Block {
    unsigned char* place;
    size_t bytes;
  };
  std::vector<std::vector<Block>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kBlocks; ++i) {
        const size_t bytes = 1 + (i * 37 + t) % 300;
        auto* place = static_cast<unsigned char*>(arena.allocate(bytes, 8));
        std::memset(place, t + 1, bytes);
        taken[t].push_back({place, bytes});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (const Block& block : taken[t]) {
      ASSERT_TRUE(std::all_of(block.place, block.place + block.bytes, [t](unsigned char b) { return b == t + 1; }));
    }
  }
}

TEST(Arena, RefusedMemoryIsNullAndLeavesErrno) {
  if (emulated()) GTEST_SKIP() << "qemu's user mode sets no limit of address space";
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit{1, 1};
    setrlimit(RLIMIT_AS, &limit);
    Arena arena;
    errno = 1234;
    const bool good = arena.allocate(8) == nullptr && arena.allocate(10'000'000) == nullptr && errno == 1234;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SpinLock, ExcludesAndWakes) {
  static constinit SpinLock lock;
  long counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) {
        std::lock_guard hold(lock);
        const long seen = counter;
        if (i % 5'000 == 0)
          std::this_thread::yield();  // lose the processor while holding it: others must sleep and wake
        counter = seen + 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter, 400'000);
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace devtrace

// The map of addresses, above all its look-ups, which take no lock.
namespace {

// Its words say the same thing: one that mixes two values is told.
struct Value {
  uint64_t address = 0;
  uint64_t times[7] = {};
  uint64_t key() const { return address; }
};

Value value_of(uint64_t address, uint64_t time) {
  Value value{address, {}};
  for (uint64_t& each : value.times) each = time * 1000003 + address;
  return value;
}

bool whole(const Value& value) {
  for (const uint64_t each : value.times)
    if (each != value.times[0]) return false;
  return (value.times[0] - value.address) % 1000003 == 0;
}

using Map = devtrace::AddressMap<Value>;

TEST(AddressMap, KeepsWhatItIsGivenThroughGrowth) {
  const auto map = std::make_unique<Map>();
  constexpr uint64_t kCount = 100'000;
  for (uint64_t i = 1; i <= kCount; ++i) map->put(value_of(i << 9, i));
  Value found;
  for (uint64_t i = 1; i <= kCount; ++i) {
    ASSERT_TRUE(map->get(i << 9, found)) << i;
    ASSERT_EQ(found.times[0], i * 1000003 + (i << 9));
  }
  EXPECT_FALSE(map->get((kCount + 1) << 9, found));
  for (uint64_t i = 1; i <= kCount; i += 2) ASSERT_TRUE(map->take(i << 9, found));
  for (uint64_t i = 1; i <= kCount; ++i) ASSERT_EQ(map->get(i << 9, found), i % 2 == 0) << i;
}

TEST(AddressMap, UpdatesInPlace) {
  const auto map = std::make_unique<Map>();
  map->put(value_of(4096, 1));
  map->update(4096, [](Value& value) { value = value_of(4096, 2); });
  map->update(8192, [](Value&) { FAIL() << "nothing is there"; });
  Value found;
  ASSERT_TRUE(map->get(4096, found));
  EXPECT_EQ(found.times[6], value_of(4096, 2).times[6]);
}

// Some keys are always there: no look-up may miss them, or see half a value, while others come and go, the table grows
// and entries move within it.
TEST(AddressMap, LookUpsSeeWholeValuesWhileOthersChangeThem) {
  const auto map = std::make_unique<Map>();
  constexpr uint64_t kSteady = 64, kChurning = 20'000;
  const auto steady = [](uint64_t i) { return (i + 1) << 20; };
  for (uint64_t i = 0; i < kSteady; ++i) map->put(value_of(steady(i), 1));
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0}, torn{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader)
    readers.emplace_back([&, reader] {
      for (uint64_t i = static_cast<uint64_t>(reader); !stop.load(std::memory_order_relaxed); ++i) {
        Value found;
        if (!map->get(steady(i % kSteady), found))
          ++missed;
        else if (found.address != steady(i % kSteady) || !whole(found))
          ++torn;
        if (map->get((i % kChurning + 1) << 9 | 1, found) &&
            (found.address != ((i % kChurning + 1) << 9 | 1) || !whole(found)))
          ++torn;
      }
    });
  for (uint64_t round = 1; round <= 20; ++round) {
    Value taken;
    for (uint64_t i = 1; i <= kChurning; ++i) map->put(value_of(i << 9 | 1, round));
    for (uint64_t i = 0; i < kSteady; ++i) {
      map->put(value_of(steady(i), round));
      map->update(steady(i), [&](Value& value) { value = value_of(value.address, round + 1); });
    }
    for (uint64_t i = 1; i <= kChurning; ++i) map->take(i << 9 | 1, taken);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(torn, 0);
}

// Taking the last value of a chain counts no change: who has seen its key must not find the slot empty a moment later.
TEST(AddressMap, AValueThatIsTakenMeanwhileIsReadWithItsKey) {
  const auto map = std::make_unique<Map>();
  constexpr uint64_t kKey = 4096;
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    Value found;
    while (!stop.load(std::memory_order_relaxed))
      if (map->get(kKey, found) && (found.address != kKey || !whole(found))) ++torn;
  });
  Value taken;
  for (uint64_t round = 1; round <= 1'000'000; ++round) {
    map->put(value_of(kKey, round));
    map->take(kKey, taken);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
