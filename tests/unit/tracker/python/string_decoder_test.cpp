#include "tracker/python/objects/string_decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace devtrace::python {
namespace {

template <class Character>
std::string converted(const std::vector<Character>& characters, size_t capacity = 100) {
  std::string out(capacity, '?');
  out.resize(to_utf8(characters.data(), characters.size(), sizeof(Character), out.data(), capacity));
  return out;
}

TEST(Text, EveryWidth) {
  EXPECT_EQ(converted<uint8_t>({'c', 'a', 'f', 0xe9}), "café");
  EXPECT_EQ(converted<uint16_t>({0x88c5, 0x7f6e, 'x', 0xe9}), "装置xé");
  EXPECT_EQ(converted<uint32_t>({0x1d11e, 0x10330, 0x7f6e}), "𝄞𐌰置");
}

TEST(Text, BytesThatWereNotUtf8ComeBack) {
  EXPECT_EQ(converted<uint16_t>({'/', 0xdcff, 0xdc80}), "/\xff\x80");  // os.fsdecode's surrogates
  EXPECT_EQ(converted<uint16_t>({0xd800}), "\xef\xbf\xbd");
  EXPECT_EQ(converted<uint32_t>({0x110000}), "\xef\xbf\xbd");
}

TEST(Text, NeverHalfACharacter) {
  EXPECT_EQ(converted<uint16_t>({'a', 0x88c5}, 3), "a");
  EXPECT_EQ(converted<uint16_t>({'a', 0x88c5}, 4), "a装");
  EXPECT_EQ(converted<uint16_t>({'a'}, 0), "");
}

// A str object as 3.12 lays it out, in memory of its own.
struct Str {
  explicit Str(unsigned width, bool compact, bool ascii, const void* characters, int64_t length) {
    const uint32_t state = width << 2 | compact << 5 | ascii << 6;
    std::memcpy(bytes + kStrLength, &length, 8);
    std::memcpy(bytes + kStrState, &state, 4);
    const Layout& layout = *layout_of(12, false);
    if (!compact) {
      std::memcpy(bytes + layout.compact_payload, &characters, 8);
    } else {
      std::memcpy(bytes + (ascii ? layout.ascii_payload : layout.compact_payload), characters, length * width);
    }
  }
  std::string read(size_t capacity = 100) const {
    std::string out(capacity, '?');
    out.resize(read_str(*layout_of(12, false), bytes, out.data(), capacity));
    return out;
  }
  alignas(8) char bytes[128] = {};
};

TEST(Text, EveryKindOfStr) {
  const uint16_t wide[] = {0x88c5, 0x7f6e};
  EXPECT_EQ(Str(1, true, true, "plain", 5).read(), "plain");
  EXPECT_EQ(Str(1, true, true, "plain", 5).read(3), "pla");
  EXPECT_EQ(Str(1, true, false, "\xe9", 1).read(), "é");
  EXPECT_EQ(Str(2, true, false, wide, 2).read(), "装置");
  EXPECT_EQ(Str(2, false, false, wide, 2).read(), "装置");
  EXPECT_EQ(Str(1, false, true, "subclass", 8).read(), "subclass");
  EXPECT_EQ(Str(1, true, true, "", 0).read(), "");
  EXPECT_EQ(Str(0, false, false, nullptr, 3).read(), "");  // never made ready (before 3.12)
  EXPECT_EQ(read_str(*layout_of(12, false), nullptr, nullptr, 0), 0u);
}

}  // namespace
}  // namespace devtrace::python
