#include "tracker/python/line_table.h"

namespace devtrace::python {
namespace {

int lnotab_line(const uint8_t* table, size_t size, int first_line, int64_t offset) {
  int64_t at = 0;
  int64_t line = first_line;  // of a damaged table: any number
  for (size_t i = 0; i + 1 < size; i += 2) {
    at += table[i];
    if (at > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return static_cast<int>(line);
}

int pairs_line(const uint8_t* table, size_t size, int first_line, int64_t offset) {
  constexpr int8_t kNoLine = -128;
  int64_t end = 0;
  int64_t line = first_line;  // of a damaged table: any number
  for (size_t i = 0; i + 1 < size; i += 2) {
    end += table[i];
    const auto delta = static_cast<int8_t>(table[i + 1]);
    if (delta != kNoLine) line += delta;
    if (offset < end) return delta == kNoLine ? 0 : static_cast<int>(line);
  }
  return 0;
}

int varints_line(const uint8_t* table, size_t size, int first_line, int64_t offset) {
  enum Code { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
  int64_t end = 0;
  int64_t line = first_line;  // of a damaged table: any number
  for (size_t i = 0; i < size;) {
    const uint8_t head = table[i++];
    const int code = head >> 3 & 15;
    end += 2 * ((head & 7) + 1);
    if (code == kNoColumns || code == kLong) {
      uint32_t value = 0;
      for (int shift = 0; i < size && shift < 32; shift += 6) {
        const uint8_t byte = table[i++];
        value |= static_cast<uint32_t>(byte & 63) << shift;
        if ((byte & 64) == 0) break;
      }
      line += value & 1 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);  // the sign is the lowest bit
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line += code - kOneLine0;
    }
    if (offset < end) return code == kNone ? 0 : static_cast<int>(line);
    while (i < size && (table[i] & 128) == 0) ++i;  // columns; the next entry has its top bit set
  }
  return 0;
}

}  // namespace

int line_at(LineTable format, const uint8_t* table, size_t size, int first_line, int64_t offset) {
  if (offset < 0) return first_line;
  switch (format) {
    case LineTable::lnotab:
      return lnotab_line(table, size, first_line, offset);
    case LineTable::pairs:
      return pairs_line(table, size, first_line, offset);
    case LineTable::varints:
      return varints_line(table, size, first_line, offset);
  }
  return 0;
}

}  // namespace devtrace::python
