// How much memory of each device is in use now, for whoever looks on (common/live_memory.h), and how it came to that.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/live_memory.h"
#include "tracker/interface/device.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::memory::live_memory {

// What a block of PyTorch's is there for, as far as a look at the program's objects has shown. Until then it is one of
// `activations` if it was given while a module was called, else `other`.
enum class Use : uint8_t { other, weights, gradients, optimizer, cache, activations };
constexpr size_t kUses = 6;

// What PyTorch's allocator says of itself: the bytes in its blocks of a device, and those that it holds of CUDA.
struct TorchHas {
  Device device;
  size_t tensors, reserved;
};
namespace detail {
// The open point of a device's course: the most since it began, how many blocks were given in it, and how many a point
// has.
struct OpenPoint {
  std::atomic<uint64_t> tensors{0}, reserved{0};
  alignas(16) std::atomic<uint32_t> given{0};
  std::atomic<uint32_t> stride{1};
};
[[gnu::visibility("hidden")]] extern OpenPoint open_points[LiveMemory::kDevices];
[[gnu::visibility("hidden")]] extern LiveMemory memory;
void torch_has_more(const TorchHas& now, stacks::StackId stack);
}  // namespace detail
// Hot. Nothing for devices that are none of CUDA's. `stack`: who was given the block by which it has so much; 0: nobody
// knows.
[[gnu::always_inline]] inline void torch_has(const TorchHas& now, stacks::StackId stack = 0) {
  const auto index = static_cast<uint8_t>(now.device.index);  // below 0: none of CUDA's
  if (index >= LiveMemory::kDevices) [[unlikely]]
    return;
  const size_t tensors = now.tensors, reserved = now.reserved;
  LiveMemory::Device* here = &detail::memory.devices[index];
  detail::OpenPoint* open = &detail::open_points[index];
  __asm__("" : "+r"(here), "+r"(open));  // or the compiler adds them up anew for each of their fields
  std::atomic_ref(here->tensors).store(tensors, std::memory_order_relaxed);
  std::atomic_ref(here->reserved).store(reserved, std::memory_order_relaxed);
  const uint32_t given = open->given.load(std::memory_order_relaxed) + 1;
  open->given.store(given, std::memory_order_relaxed);
  if (reserved > open->reserved.load(std::memory_order_relaxed)) [[unlikely]]
    open->reserved.store(reserved, std::memory_order_relaxed);
  if (tensors >= open->tensors.load(std::memory_order_relaxed)) {  // else it is below the peak, too
    open->tensors.store(tensors, std::memory_order_relaxed);
    if (tensors > std::atomic_ref(here->peak).load(std::memory_order_relaxed)) [[unlikely]]
      return detail::torch_has_more(now, stack);
  }
  if (given >= open->stride.load(std::memory_order_relaxed)) [[unlikely]]
    detail::torch_has_more(now, stack);
}

// Hot. The same when a block was taken back: no peak, and no point of the course.
[[gnu::always_inline]] inline void torch_has_less(const TorchHas& now) {
  const auto index = static_cast<uint8_t>(now.device.index);
  if (index >= LiveMemory::kDevices) [[unlikely]]
    return;
  LiveMemory::Device& here = detail::memory.devices[index];
  std::atomic_ref(here.tensors).store(now.tensors, std::memory_order_relaxed);
  std::atomic_ref(here.reserved).store(now.reserved, std::memory_order_relaxed);
}

// Hot. A block that is just being given is used so.
void begins_as(Device device, Use use, size_t bytes);
// A block that lives, and was taken to be used as `before`, is used so; it was given at `given`, in nanoseconds since
// the epoch. Of a peak since then it is a part, too.
void is_used(Device device, Use use, size_t bytes, uint64_t given, Use before = Use::other);
// Hot. Such a block is gone.
void no_longer_used(Device device, Use use, size_t bytes);

// When PyTorch's tensors took the most. Another thread's new one may be missed at that moment.
struct Peak {
  uint64_t tensors = 0, reserved = 0;  // bytes, then
  uint64_t time = 0;                   // nanoseconds since the epoch, to the kernel's tick
  stacks::StackId stack = 0;
  std::array<uint64_t, kUses> uses = {};  // bytes of those that lived then; `other` has none here
};
Peak peak_of(Device device);

// How that went, from the first block on: at most kMostPoints, each the most of equally many blocks given.
// When there is no room for more, two become one.
struct Point {
  uint64_t time = 0, tensors = 0, reserved = 0;
};
constexpr size_t kMostPoints = 256;
std::vector<Point> course_of(Device device);

// Whether a device has since note_looked() taken a 128th more than it ever had: a look at what it is used for is
// due.
[[gnu::visibility("hidden")]] extern constinit std::atomic<bool> look_is_due;
void note_looked();

// Hot. An allocation of CUDA's came, or is gone.
void allocated(Device device, size_t bytes);
void freed(Device device, size_t bytes);

void forget_all();

const LiveMemory& now();

}  // namespace devtrace::memory::live_memory
