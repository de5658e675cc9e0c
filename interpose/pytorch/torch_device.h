#pragma once

#include <cstdint>

#include "tracker/events.h"

namespace devtrace::interpose {

// c10::Device: passed by value in a register.
struct TorchDevice {
  int8_t type;
  int8_t index;
};

inline Device tracked(TorchDevice device) {
  constexpr int8_t kCpu = 0, kCuda = 1;
  if (device.type == kCpu) return Device::cpu();
  return device.type == kCuda ? Device::cuda(device.index) : Device{};
}

}  // namespace devtrace::interpose
