// Mixing for the stack tables' keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace devtrace::stacks {

// Both halves of the product folded: each bit of the result depends on all bits of both.
inline uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_pair(uint64_t a, uint64_t b) {
  return fold(fold(a ^ 0x9e3779b97f4a7c15, b ^ 0xc2b2ae3d27d4eb4f), 0xff51afd7ed558ccd);
}

inline uint64_t hash_bytes(const char* bytes, size_t size) {
  uint64_t hash = size;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    hash = hash_pair(hash, word);
  }
  uint64_t rest = 0;
  if (size != 0) std::memcpy(&rest, bytes, size);
  return hash_pair(hash, rest);
}

}  // namespace devtrace::stacks
