#include "tracker/memory/live_memory.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "tracker/base/clock.h"
#include "tracker/base/spinlock.h"

namespace devtrace::memory::live_memory {

namespace detail {
constinit OpenPoint open_points[LiveMemory::kDevices];
constinit LiveMemory memory;
}  // namespace detail

namespace {

using detail::memory, detail::open_points, detail::OpenPoint;

// Never waited for: a fork's child may find it held.
constinit SpinLock peaks_lock;
constinit Peak peaks[LiveMemory::kDevices];
constinit std::atomic<uint64_t> used[LiveMemory::kDevices][kUses];  // bytes of the blocks that live
constinit std::atomic<uint64_t> looked[LiveMemory::kDevices];       // the peak of then

// The lock's, but for what is open: PyTorch's allocator tells of a device under a lock of its own.
struct Course {
  Point points[kMostPoints];
  size_t count = 0;
};
constinit Course courses[LiveMemory::kDevices];

LiveMemory::Device* of(Device device) {
  return device.is_cuda() && device.index < LiveMemory::kDevices ? &memory.devices[device.index] : nullptr;
}

void set(uint64_t& place, uint64_t value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
}

// The point is complete: it is kept, and the next one begins.
void close_point(Course& course, OpenPoint& open) {
  if (!peaks_lock.try_lock()) return;  // it goes on
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  if (course.count == kMostPoints) {
    for (size_t each = 0; each < kMostPoints / 2; ++each) {
      const Point &first = course.points[2 * each], &second = course.points[2 * each + 1];
      course.points[each] = {second.time, std::max(first.tensors, second.tensors),
                             std::max(first.reserved, second.reserved)};
    }
    course.count = kMostPoints / 2;
    open.stride.store(open.stride.load(std::memory_order_relaxed) * 2, std::memory_order_relaxed);
  }
  course.points[course.count++] = {now_coarse(), open.tensors.load(std::memory_order_relaxed),
                                   open.reserved.load(std::memory_order_relaxed)};
  for (auto* each : {&open.tensors, &open.reserved}) each->store(0, std::memory_order_relaxed);
  open.given.store(0, std::memory_order_relaxed);
}

void raise_to(uint64_t& peak, uint64_t value) {
  const std::atomic_ref most(peak);
  uint64_t known = most.load(std::memory_order_relaxed);
  while (known < value && !most.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

void new_peak(Device device, size_t tensors, size_t reserved, stacks::StackId stack) {
  raise_to(memory.devices[device.index].peak, tensors);
  if (!peaks_lock.try_lock()) return;
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  Peak& peak = peaks[device.index];
  if (tensors <= peak.tensors) return;
  peak = {tensors, reserved, now_in_order(false), stack};  // later than any block of this thread's
  for (size_t use = 1; use < kUses; ++use) peak.uses[use] = used[device.index][use].load(std::memory_order_relaxed);
  const uint64_t then = looked[device.index].load(std::memory_order_relaxed);
  if (tensors - then / 128 > then) look_is_due.store(true, std::memory_order_relaxed);
}

}  // namespace

constinit std::atomic<bool> look_is_due{false};

void detail::torch_has_more(const TorchHas& now, stacks::StackId stack) {
  const auto [device, tensors, reserved] = now;
  OpenPoint& open = open_points[device.index];
  if (open.given.load(std::memory_order_relaxed) >= open.stride.load(std::memory_order_relaxed))
    close_point(courses[device.index], open);
  if (tensors > std::atomic_ref(memory.devices[device.index].peak).load(std::memory_order_relaxed))
    new_peak(device, tensors, reserved, stack);
}

void begins_as(Device device, Use use, size_t bytes) {
  if (of(device)) used[device.index][static_cast<size_t>(use)].fetch_add(bytes, std::memory_order_relaxed);
}

void is_used(Device device, Use use, size_t bytes, uint64_t given, Use before) {
  begins_as(device, use, bytes);
  if (before != Use::other) no_longer_used(device, before, bytes);
  if (!of(device) || !peaks_lock.try_lock()) return;
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  Peak& peak = peaks[device.index];
  if (given > peak.time) return;
  peak.uses[static_cast<size_t>(use)] += bytes;
  uint64_t& no_longer = peak.uses[static_cast<size_t>(before)];
  no_longer -= std::min<uint64_t>(no_longer, bytes);
}

void no_longer_used(Device device, Use use, size_t bytes) {
  if (of(device)) used[device.index][static_cast<size_t>(use)].fetch_sub(bytes, std::memory_order_relaxed);
}

Peak peak_of(Device device) {
  if (!of(device) || !peaks_lock.try_lock()) return {};
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  return peaks[device.index];
}

std::vector<Point> course_of(Device device) {
  if (!of(device) || !peaks_lock.try_lock()) return {};
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  const Course& course = courses[device.index];
  const OpenPoint& open = open_points[device.index];
  std::vector<Point> points(course.points, course.points + course.count);
  if (open.given.load(std::memory_order_relaxed) > 0)
    points.push_back(
        {now_coarse(), open.tensors.load(std::memory_order_relaxed), open.reserved.load(std::memory_order_relaxed)});
  return points;
}

void note_looked() {
  look_is_due.store(false, std::memory_order_relaxed);
  for (size_t device = 0; device < std::size(looked); ++device)
    looked[device].store(std::atomic_ref(memory.devices[device].peak).load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
}

void allocated(Device device, size_t bytes) {
  if (LiveMemory::Device* const here = of(device))
    raise_to(here->allocated_peak,
             std::atomic_ref(here->allocated).fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

void freed(Device device, size_t bytes) {
  LiveMemory::Device* const here = of(device);
  if (!here) return;
  // Never below none: an allocation that another thread made while all was forgotten is not counted, and its end is.
  const std::atomic_ref left(here->allocated);
  uint64_t known = left.load(std::memory_order_relaxed);
  while (!left.compare_exchange_weak(known, known > bytes ? known - bytes : 0, std::memory_order_relaxed)) {
  }
}

void forget_all() {
  for (LiveMemory::Device& device : memory.devices)
    for (uint64_t* each : {&device.tensors, &device.reserved, &device.peak, &device.allocated, &device.allocated_peak})
      set(*each, 0);
  for (Peak& each : peaks) each = {};
  for (Course& each : courses) each.count = 0;
  for (OpenPoint& each : open_points) {
    each.stride.store(1);
    for (auto* part : {&each.tensors, &each.reserved}) part->store(0);
    each.given.store(0);
  }
  for (auto& device : used)
    for (auto& each : device) each.store(0);
  for (auto& each : looked) each.store(0);
}

const LiveMemory& now() {
  return memory;
}

}  // namespace devtrace::memory::live_memory
