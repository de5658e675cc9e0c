// FNV-1a, 64 bits: names that stay the same wherever and whenever they are made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/format.h"

namespace devtrace::report {

class Fnv1a {
 public:
  Fnv1a& add(std::string_view bytes) {
    for (const char c : bytes) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return *this;
  }
  // 16 hexadecimal digits.
  std::string digits() const { return fmt::format("{:016x}", state_); }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

}  // namespace devtrace::report
