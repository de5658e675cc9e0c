#include "tracker/python/objects/string_decoder.h"

#include <algorithm>
#include <cstring>

namespace devtrace::python {
namespace {

uint32_t character_at(const void* characters, size_t index, unsigned width) {
  switch (width) {
    case 1:
      return static_cast<const uint8_t*>(characters)[index];
    case 2:
      return static_cast<const uint16_t*>(characters)[index];
    default:
      return static_cast<const uint32_t*>(characters)[index];
  }
}

size_t encode(uint32_t character, char* out) {
  constexpr uint32_t kReplacement = 0xfffd;
  if (character >= 0xdc80 && character <= 0xdcff) {
    out[0] = static_cast<char>(character & 0xff);
    return 1;
  }
  if ((character >= 0xd800 && character <= 0xdfff) || character > 0x10ffff) character = kReplacement;
  if (character < 0x80) {
    out[0] = static_cast<char>(character);
    return 1;
  }
  if (character < 0x800) {
    out[0] = static_cast<char>(0xc0 | character >> 6);
    out[1] = static_cast<char>(0x80 | (character & 63));
    return 2;
  }
  if (character < 0x10000) {
    out[0] = static_cast<char>(0xe0 | character >> 12);
    out[1] = static_cast<char>(0x80 | (character >> 6 & 63));
    out[2] = static_cast<char>(0x80 | (character & 63));
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | character >> 18);
  out[1] = static_cast<char>(0x80 | (character >> 12 & 63));
  out[2] = static_cast<char>(0x80 | (character >> 6 & 63));
  out[3] = static_cast<char>(0x80 | (character & 63));
  return 4;
}

}  // namespace

size_t to_utf8(const void* characters, size_t count, unsigned width, char* out, size_t capacity) {
  size_t written = 0;
  for (size_t i = 0; i < count; ++i) {
    char bytes[4];
    const size_t length = encode(character_at(characters, i, width), bytes);
    if (written + length > capacity) break;
    std::memcpy(out + written, bytes, length);
    written += length;
  }
  return written;
}

size_t read_str(const Layout& layout, const void* text, char* out, size_t capacity) {
  if (text == nullptr) return 0;
  const char* object = static_cast<const char*>(text);
  int64_t length;
  uint32_t state;
  std::memcpy(&length, object + kStrLength + layout.extra_header, sizeof length);
  std::memcpy(&state, object + kStrState + layout.extra_header, sizeof state);
  if (length <= 0) return 0;
  const uint32_t form = state >> layout.str_kind;
  const unsigned width = form & 7;
  const bool compact = form >> 3 & 1;
  const bool ascii = form >> 4 & 1;
  if (width != 1 && width != 2 && width != 4) return 0;  // a str of the old kind that nobody has read yet (before 3.12)
  const void* characters = object + layout.ascii_payload;
  if (!compact) {
    std::memcpy(&characters, object + layout.compact_payload, sizeof characters);  // a subclass keeps them elsewhere
  } else if (!ascii) {
    characters = object + layout.compact_payload;
  }
  if (characters == nullptr) return 0;
  if (ascii) {
    const size_t bytes = std::min(static_cast<size_t>(length), capacity);
    std::memcpy(out, characters, bytes);
    return bytes;
  }
  return to_utf8(characters, static_cast<size_t>(length), width, out, capacity);
}

}  // namespace devtrace::python
