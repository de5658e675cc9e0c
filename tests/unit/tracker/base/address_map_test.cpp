// The map of addresses, above all its look-ups, which take no lock.
#include "tracker/base/address_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

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

}  // namespace
