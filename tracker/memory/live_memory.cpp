#include "tracker/memory/live_memory.h"

#include <atomic>
#include <mutex>

#include "tracker/base/clock.h"
#include "tracker/base/spinlock.h"

namespace devtrace::memory::live_memory {
namespace {

constinit LiveMemory memory;

// Never waited for: a fork's child may find it held.
constinit SpinLock peaks_lock;
constinit Peak peaks[LiveMemory::kDevices];

LiveMemory::Device* of(Device device) {
  return device.is_cuda() && device.index < LiveMemory::kDevices ? &memory.devices[device.index] : nullptr;
}

void set(uint64_t& place, uint64_t value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
}

void raise_to(uint64_t& peak, uint64_t value) {
  const std::atomic_ref most(peak);
  uint64_t known = most.load(std::memory_order_relaxed);
  while (known < value && !most.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void torch_has(Device device, size_t tensors, size_t reserved, stacks::StackId stack) {
  LiveMemory::Device* const here = of(device);
  if (!here) return;
  set(here->tensors, tensors);
  set(here->reserved, reserved);
  if (tensors <= std::atomic_ref(here->peak).load(std::memory_order_relaxed)) return;
  raise_to(here->peak, tensors);
  if (!peaks_lock.try_lock()) return;
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  Peak& peak = peaks[device.index];
  if (tensors > peak.tensors) peak = {tensors, reserved, now_coarse(), stack};
}

Peak peak_of(Device device) {
  if (!of(device) || !peaks_lock.try_lock()) return {};
  const std::lock_guard hold(peaks_lock, std::adopt_lock);
  return peaks[device.index];
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
}

const LiveMemory& now() {
  return memory;
}

}  // namespace devtrace::memory::live_memory
