// On which devices anything has been computed: who allocates on another one has only loaded there.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracker/interface/device.h"

namespace devtrace::memory::devices_in_use {

namespace detail {
inline constinit std::atomic<uint64_t> devices{0};

constexpr uint64_t bit(Device device) {
  return device.is_cuda() && device.index < 64 ? uint64_t{1} << device.index : 0;
}
}  // namespace detail

// Hot, one load once it is known: a kernel or a library's function runs on the device.
inline void computes(Device device) {
  const uint64_t bit = detail::bit(device);
  if ((detail::devices.load(std::memory_order_relaxed) & bit) != bit)
    detail::devices.fetch_or(bit, std::memory_order_relaxed);
}

// The same of one of the first 32, by its bit.
inline bool has_computed(uint32_t bit) {
  return (static_cast<uint32_t>(detail::devices.load(std::memory_order_relaxed)) & bit) != 0;
}
inline bool has_computed(Device device) {
  const uint64_t bit = detail::bit(device);
  return bit == 0 || (detail::devices.load(std::memory_order_relaxed) & bit) != 0;
}

// When devtrace is attached again: what ran in between, nobody saw.
inline void forget_all() {
  detail::devices.store(~uint64_t{0}, std::memory_order_relaxed);
}

}  // namespace devtrace::memory::devices_in_use
