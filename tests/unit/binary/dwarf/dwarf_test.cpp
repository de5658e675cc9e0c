// Debug information: how it is read, and where it lies apart.
#include <gtest/gtest.h>

#include <vector>

#include "binary/dwarf/cursor.h"
#include "binary/dwarf/split_files.h"

namespace devtrace::dwarf {
namespace {

TEST(DwarfCursor, NumbersOfEachLength) {
  Cursor cursor(std::string_view("\x01\x02\x01\x04\x03\x02\x01\xe5\x8e\x26\x7f\x80\x7f", 13));
  EXPECT_EQ(cursor.u8(), 0x01);
  EXPECT_EQ(cursor.u16(), 0x0102);
  EXPECT_EQ(cursor.u32(), 0x01020304u);
  EXPECT_EQ(cursor.uleb(), 624485u);
  EXPECT_EQ(cursor.sleb(), -1);
  EXPECT_EQ(cursor.sleb(), -128);
  EXPECT_TRUE(cursor.at_end());
  EXPECT_FALSE(cursor.failed());
}

TEST(DwarfCursor, BehindTheEndThereIsNothing) {
  Cursor cut(std::string_view("\x80\x80", 2));
  cut.uleb();
  EXPECT_TRUE(cut.failed());
  Cursor unended("text");
  EXPECT_EQ(unended.text(), "");
  EXPECT_TRUE(unended.failed());
  EXPECT_EQ(unended.u64(), 0u);
  Cursor beyond("text", 5);
  EXPECT_TRUE(beyond.failed());
  EXPECT_EQ(beyond.skip(0), "");
  Cursor large("text", 1);
  large.skip(~uint64_t{0});
  EXPECT_TRUE(large.failed());
}

TEST(DwarfCursor, TextsOneAfterTheOther) {
  Cursor cursor(std::string_view("one\0two\0", 8));
  EXPECT_EQ(cursor.text(), "one");
  EXPECT_EQ(cursor.text(), "two");
  EXPECT_TRUE(cursor.at_end());
}

}  // namespace
}  // namespace devtrace::dwarf

// Indexes made by hand. Real files: test_cpp_origins.py.
namespace devtrace::dwarf {
namespace {

std::string words(const std::vector<uint32_t>& all) {
  return {reinterpret_cast<const char*>(all.data()), all.size() * 4};
}

// Two units of three sections each, in four slots; the columns' numbers are given.
std::vector<uint32_t> index_of(uint32_t version, uint32_t last_column) {
  return {version, 3,   2,           4,                     // a header
          0,       0,   0x22,        7,   0x11, 7,   0, 0,  // ids
          0,       2,   1,           0,                     // rows
          1,       3,   last_column,                        // columns
          100,     200, 300,         110, 220,  330,        // offsets
          10,      20,  30,          11,  22,   33};        // sizes
}

TEST(SplitPackage, EachUnitHasItsParts) {
  const std::string index = words(index_of(5, 8));
  const PackagedUnit second = find_in_index(index, 0x700000022);
  ASSERT_TRUE(second.found);
  EXPECT_EQ(second.info.offset, 110u);
  EXPECT_EQ(second.info.size, 11u);
  EXPECT_EQ(second.abbrev.offset, 220u);
  EXPECT_EQ(second.rnglists.size, 33u);
  EXPECT_EQ(find_in_index(index, 0x700000011).info.offset, 100u);
}

TEST(SplitPackage, AnotherBuildsUnitIsNotThere) {
  const std::string index = words(index_of(5, 8));
  EXPECT_FALSE(find_in_index(index, 0x22).found);
  EXPECT_FALSE(find_in_index(index, 0).found) << "an empty slot is nobody's";
}

// The number that is DW_SECT_RNGLISTS in DWARF 5 was DW_SECT_MACRO in GNU's format.
TEST(SplitPackage, ColumnsOfTheOldFormat) {
  EXPECT_EQ(find_in_index(words(index_of(2, 8)), 0x700000011).rnglists.size, 0u);
  EXPECT_EQ(find_in_index(words(index_of(2, 6)), 0x700000011).str_offsets.offset, 300u);
}

TEST(SplitPackage, WhatIsCutShortIsNoIndex) {
  const std::string whole = words(index_of(5, 8));
  for (size_t size = 0; size < whole.size(); ++size)
    find_in_index(std::string_view(whole).substr(0, size), 0x700000022);
  EXPECT_FALSE(find_in_index("", 1).found);
  EXPECT_FALSE(find_in_index(words({4, 3, 2, 4}), 1).found);
  EXPECT_FALSE(find_in_index(words({5, 3, 2, ~0u}), 1).found);
}

}  // namespace
}  // namespace devtrace::dwarf
