// How a hook of a C++ function is declared: by its symbol, so that no header of PyTorch's is needed and every version's
// spelling is one row.
#pragma once

#include <cstdint>

#include "interpose/linking/original.h"
#include "tracker/events.h"

#define PYTORCH_HOOK(type, name, parameters, symbol)                \
  extern "C" DEVTRACE_EXPORT type name parameters __asm__(#symbol); \
  extern "C" type name parameters

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
