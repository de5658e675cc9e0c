#include "binary/dwarf/cursor.h"

#include <gtest/gtest.h>

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
