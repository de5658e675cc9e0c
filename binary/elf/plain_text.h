// Texts compared by code of our own. strcmp, strlen and memcmp may be somebody's who stands before the C library (a
// sanitizer, another preloaded library). Its wrapper looks the real one up with dlsym, which is how we come here.
#pragma once

#include <cstddef>
#include <string_view>

namespace devtrace::elf {

// The barrier keeps the compiler from making a call of the loop.
inline std::string_view plain_view(const char* text) {
  size_t length = 0;
  for (; text && text[length]; ++length) __asm__ volatile("");
  return {text, length};
}

// Negative: `left` comes first; 0: they are the same.
inline int plain_compare(std::string_view left, std::string_view right) {
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    __asm__ volatile("");
    if (left[i] != right[i]) return static_cast<unsigned char>(left[i]) < static_cast<unsigned char>(right[i]) ? -1 : 1;
  }
  return left.size() == right.size() ? 0 : left.size() < right.size() ? -1 : 1;
}

inline bool plain_same(const char* left, const char* right) {
  for (; *left && *left == *right; ++left, ++right) __asm__ volatile("");
  return *left == *right;
}

}  // namespace devtrace::elf
