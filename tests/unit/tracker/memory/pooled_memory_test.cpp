#include "tracker/memory/pooled_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace memory = devtrace::memory;
using devtrace::Device;

namespace {

constexpr uintptr_t kBase = 0x7500'0000'0000;  // of a region that no other test uses

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
  void SetUp() override { memory::provenance::allocated(kBase, 4096, Device::cuda(1)); }
  void TearDown() override {
    memory::pooled_memory::forget_all();
    memory::provenance::freed(kBase);
  }
  static bool pooled(uintptr_t address) { return memory::provenance::find(address)->pooled; }
};

}  // namespace

TEST_F(PooledMemory, APartIsFoundAsLongAsItsObjectLives) {
  Object object;
  memory::pooled_memory::made(reinterpret_cast<uintptr_t>(&object), sizeof object);
  EXPECT_FALSE(pooled(kBase + 512)) << "its fields are not filled in yet";
  object.address = kBase + 512, object.bytes = 512, object.device = 1;
  const auto part = memory::provenance::find(kBase + 600);
  EXPECT_TRUE(part->pooled);
  EXPECT_EQ(part->address, kBase + 512);
  EXPECT_EQ(part->bytes, 512u);
  EXPECT_EQ(part->allocated.device, Device::cuda(1));
  EXPECT_FALSE(pooled(kBase + 511));
  EXPECT_FALSE(pooled(kBase + 1024));
  memory::pooled_memory::gone(reinterpret_cast<uintptr_t>(&object));
  EXPECT_FALSE(pooled(kBase + 600));
}

TEST_F(PooledMemory, WhatDoesNotAgreeWithTheAllocationIsNotBelieved) {
  Object object;
  memory::pooled_memory::made(reinterpret_cast<uintptr_t>(&object), sizeof object);
  object.address = kBase + 512, object.bytes = 512, object.device = 0;
  EXPECT_FALSE(pooled(kBase + 600)) << "another device";
  object.device = 1, object.bytes = 500;
  EXPECT_FALSE(pooled(kBase + 600)) << "no size of the pool's";
  object.bytes = 8192;
  EXPECT_FALSE(pooled(kBase + 600)) << "it runs over the allocation";
  object.bytes = 1024;
  EXPECT_TRUE(pooled(kBase + 600));
  memory::pooled_memory::made(8, sizeof object);  // memory that is not there
  EXPECT_TRUE(pooled(kBase + 600));
}

TEST_F(PooledMemory, OfAPoolOverAPoolTheSmallerPartIsTheArrays) {
  Object outer{.address = kBase, .bytes = 4096, .device = 1}, inner{.address = kBase + 512, .bytes = 512, .device = 1};
  for (const Object* each : {&inner, &outer})
    memory::pooled_memory::made(reinterpret_cast<uintptr_t>(each), sizeof *each);
  EXPECT_EQ(memory::provenance::find(kBase + 600)->bytes, 512u);
  EXPECT_EQ(memory::provenance::find(kBase)->bytes, 4096u);
}
