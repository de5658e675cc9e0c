// FNV-1a, 64 bits, as 16 hexadecimal digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/format.h"

namespace devtrace::report::tables {

inline std::string fnv1a_digits(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

}  // namespace devtrace::report::tables
