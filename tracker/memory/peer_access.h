// Which device may reach which other's memory, and whether the program itself asked for that.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracker/interface/device.h"

namespace devtrace::memory::peer_access {

constexpr int kDevices = 64;  // of one process; pairs beyond are not known

namespace detail {
constexpr uint8_t kAllowed = 1;
constexpr uint8_t kDeclared = 2;
[[gnu::visibility("hidden")]] extern std::atomic<uint8_t> pairs[kDevices][kDevices];

inline uint8_t pair(Device device, Device peer) {
  if (!device.is_cuda() || !peer.is_cuda() || device.index >= kDevices || peer.index >= kDevices) return 0;
  return pairs[device.index][peer.index].load(std::memory_order_relaxed);
}
}  // namespace detail

void changed(int device, int peer, bool allowed, bool own);

// Hot, one load: `device` was allowed to reach the memory of `peer`, by whomever.
inline bool allowed(Device device, Device peer) {
  return detail::pair(device, peer) & detail::kAllowed;
}

// … by the program itself: it is not by accident that its kernels do.
inline bool declared(Device device, Device peer) {
  return detail::pair(device, peer) & detail::kDeclared;
}

}  // namespace devtrace::memory::peer_access
