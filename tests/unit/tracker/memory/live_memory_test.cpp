#include "tracker/memory/live_memory.h"

#include <gtest/gtest.h>

#include "tracker/memory/ownership.h"

namespace memory = devtrace::memory;
using devtrace::Device;
using devtrace::LiveMemory;
using devtrace::MemoryKind;

namespace {

constexpr uintptr_t kBase = 0x7100'0000'0000;

const LiveMemory::Device& of(int index) {
  return memory::live_memory::now().devices[index];
}

TEST(LiveMemory, HasWhatPyTorchSaysAndTheMostOfIt) {
  memory::live_memory::forget_all();
  memory::live_memory::torch_has(Device::cuda(1), 100, 1000);
  memory::live_memory::torch_has(Device::cuda(1), 700, 2000);
  memory::live_memory::torch_has(Device::cuda(1), 300, 2000);
  memory::live_memory::torch_has(Device::cpu(), 5, 5);
  memory::live_memory::torch_has(Device::cuda(100), 5, 5);
  EXPECT_EQ(of(1).tensors, 300u);
  EXPECT_EQ(of(1).peak, 700u);
  EXPECT_EQ(of(1).reserved, 2000u);
  EXPECT_EQ(of(0).tensors, 0u);
}

TEST(LiveMemory, CountsWhatIsOwnedByDevice) {
  memory::ownership::forget_all();
  memory::ownership::add({kBase, 1 << 21, Device::cuda(0), MemoryKind::device});
  memory::ownership::add({kBase + (1 << 21), 1 << 20, Device::cuda(0), MemoryKind::device});
  memory::ownership::add({kBase + (2 << 21), 1 << 20, Device::cpu(), MemoryKind::pinned});
  memory::ownership::add({kBase + (1 << 21), 1 << 21, Device::cuda(0), MemoryKind::device});  // in the place of another
  EXPECT_EQ(of(0).allocated, uint64_t{2} << 21);
  memory::ownership::remove(kBase);
  EXPECT_EQ(of(0).allocated, uint64_t{1} << 21);
  memory::ownership::remove_starting_in(kBase, kBase + (3 << 21));
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
