// Reads bytes of a debug section one after the other. Behind the end there are zeros and `failed()`: sections are a
// file's, which may be of another build, cut short or broken.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace devtrace::dwarf {

class Cursor {
 public:
  explicit Cursor(std::string_view bytes, uint64_t at = 0) : bytes_(bytes), at_(at), failed_(at > bytes.size()) {}

  uint64_t at() const { return at_; }
  bool failed() const { return failed_; }
  bool at_end() const { return failed_ || at_ >= bytes_.size(); }

  // Little endian, 1 to 8 bytes.
  uint64_t fixed(size_t bytes) {
    uint64_t value = 0;
    const std::string_view found = skip(bytes);
    if (!failed_) std::memcpy(&value, found.data(), bytes);
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(fixed(1)); }
  uint16_t u16() { return static_cast<uint16_t>(fixed(2)); }
  uint32_t u32() { return static_cast<uint32_t>(fixed(4)); }
  uint64_t u64() { return fixed(8); }

  uint64_t uleb() { return leb(false); }
  int64_t sleb() { return static_cast<int64_t>(leb(true)); }

  std::string_view text() {
    if (failed_) return {};
    const size_t end = bytes_.find('\0', at_);
    if (end == std::string_view::npos) {
      failed_ = true;
      return {};
    }
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  std::string_view skip(uint64_t bytes) {
    if (failed_ || bytes > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    const std::string_view found = bytes_.substr(at_, bytes);
    at_ += bytes;
    return found;
  }

 private:
  uint64_t leb(bool is_signed) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = u8();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (failed_ || (byte & 0x80) == 0) {
        if (is_signed && (byte & 0x40) != 0 && shift + 7 < 64) value |= ~uint64_t{0} << (shift + 7);
        return value;
      }
    }
  }

  std::string_view bytes_;
  uint64_t at_;
  bool failed_;
};

}  // namespace devtrace::dwarf
