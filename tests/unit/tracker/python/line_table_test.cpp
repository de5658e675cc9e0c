// Hand-made tables: the corners. Whole tables of every Python's own standard library: tests/e2e/process/test_stacks.py.
#include "tracker/python/line_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace devtrace::python {
namespace {

// Lines of the code units 0, 1, … of a table.
std::vector<int> lines(LineTable format, const std::vector<uint8_t>& table, int first, size_t units) {
  std::vector<int> found;
  for (size_t i = 0; i < units; ++i) found.push_back(line_at(format, table.data(), table.size(), first, 2 * i));
  return found;
}

TEST(LineTable, LnotabTakesSignedLinesAndUnsignedBytes) {
  EXPECT_EQ(lines(LineTable::lnotab, {0, 1, 4, 2, 2, 0xff, 0, 127, 0, 3}, 10, 5), (std::vector{11, 11, 13, 142, 142}));
  // A gap of more than 255 bytes takes several entries.
  const std::vector<uint8_t> far{255, 0, 1, 5};
  EXPECT_EQ(line_at(LineTable::lnotab, far.data(), far.size(), 1, 254), 1);
  EXPECT_EQ(line_at(LineTable::lnotab, far.data(), far.size(), 1, 256), 6);
}

// A table that is read while it is freed: the sanitizer of undefined behaviour sees an overflow.
TEST(LineTable, ADamagedTableGivesSomeLine) {
  const std::vector<uint8_t> table{0x80 | 13 << 3, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f, 0x80 | 12 << 3, 1, 2};
  for (const LineTable form : {LineTable::lnotab, LineTable::pairs, LineTable::varints})
    line_at(form, table.data(), table.size(), 0x7fffffff, 1000);
}

TEST(LineTable, PairsKnowInstructionsWithoutALine) {
  EXPECT_EQ(lines(LineTable::pairs, {2, 1, 4, 0x80, 2, 0xfe, 0, 100, 2, 1}, 10, 6), (std::vector{11, 0, 0, 9, 110, 0}));
}

TEST(LineTable, VarintsOfEveryCode) {
  const std::vector<uint8_t> table{
      0x80 | 0 << 3 | 1,  0x12,                     // short form, two units: the same line
      0x80 | 10 << 3 | 0, 1,        2,              // one line form, +0
      0x80 | 12 << 3 | 0, 1,        2,              // one line form, +2
      0x80 | 13 << 3 | 0, 3,                        // no columns, -1 (the sign is the lowest bit)
      0x80 | 14 << 3 | 0, 0x40 | 2, 0x03, 0, 1, 1,  // long form, two bytes of delta: 2 + 3 * 64 = 194 -> +97
      0x80 | 15 << 3 | 2,                           // no location, three units
      0x80 | 11 << 3 | 0, 1,        2,              // +1
  };
  EXPECT_EQ(lines(LineTable::varints, table, 5, 11), (std::vector{5, 5, 5, 7, 6, 103, 0, 0, 0, 104, 0}));
}

TEST(LineTable, NotStartedIsTheFirstLine) {
  for (LineTable format : {LineTable::lnotab, LineTable::pairs, LineTable::varints}) {
    EXPECT_EQ(line_at(format, nullptr, 0, 7, -1), 7);
  }
}

TEST(LineTable, TornTablesAreNotReadBeyondTheirEnd) {
  const std::vector<uint8_t> whole{0x80 | 14 << 3 | 0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
  for (LineTable format : {LineTable::lnotab, LineTable::pairs, LineTable::varints}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      const std::vector<uint8_t> torn(whole.begin(),
                                      whole.begin() + size);  // its own block: ASan and valgrind see an overrun
      line_at(format, torn.data(), torn.size(), 1, 1'000'000);
    }
  }
}

}  // namespace
}  // namespace devtrace::python
