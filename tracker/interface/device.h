// A device as PyTorch and the log name it: `cpu`, `cuda:N`.
#pragma once

#include <cstdint>
#include <string>

namespace devtrace {

struct Device {
  static constexpr int8_t kCpu = -1;
  static constexpr int8_t kUnknown = -2;

  int8_t index =
      kUnknown;  // kCpu, kUnknown or the CUDA ordinal as this process numbers it (after CUDA_VISIBLE_DEVICES)

  static constexpr Device cpu() { return {kCpu}; }
  static constexpr Device cuda(int ordinal) { return {static_cast<int8_t>(ordinal)}; }
  constexpr bool known() const { return index != kUnknown; }
  constexpr bool is_cpu() const { return index == kCpu; }
  constexpr bool is_cuda() const { return index >= 0; }
  friend constexpr bool operator==(Device, Device) = default;

  std::string name() const {
    if (index == kCpu) return "cpu";
    return is_cuda() ? "cuda:" + std::to_string(index) : "unknown";
  }
};

}  // namespace devtrace
