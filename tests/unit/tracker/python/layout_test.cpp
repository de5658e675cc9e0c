#include "tracker/python/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace devtrace::python {
namespace {

// What CPython 3.13.0 (x86-64) has at the start of _PyRuntime, as far as it is read: word index and value.
std::vector<uint64_t> description() {
  std::vector<uint64_t> words(80);
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = 0x030d00f0;
  words[23] = 72;   // thread_state.current_frame
  words[29] = 8;    // interpreter_frame.previous
  words[31] = 56;   // interpreter_frame.instr_ptr
  words[33] = 70;   // interpreter_frame.owner
  words[35] = 112;  // code_object.filename
  words[37] = 128;  // code_object.qualname
  words[38] = 136;  // code_object.linetable
  words[39] = 68;   // code_object.firstlineno
  words[43] = 200;  // code_object.co_code_adaptive
  words[45] = 8;    // pyobject.ob_type
  words[66] = 32;   // bytes_object.ob_sval
  words[68] = 32;   // unicode_object.state
  words[69] = 16;   // unicode_object.length
  words[70] = 40;   // unicode_object.asciiobject_size
  return words;
}

std::string refusal(const std::vector<uint64_t>& words) {
  Layout layout = *layout_of(13);
  const char* why = "";
  return apply_debug_offsets(words.data(), layout, &why) ? "" : why;
}

TEST(Layout, UnknownVersionsHaveNoRow) {
  EXPECT_EQ(layout_of(8), nullptr);
  EXPECT_EQ(layout_of(14), nullptr);
  EXPECT_EQ(layout_of(0), nullptr);
  for (int minor = 9; minor <= 13; ++minor) EXPECT_EQ(layout_of(minor)->minor, minor);
}

TEST(Layout, TheDescriptionSaysWhatTheRowSays) {
  Layout layout = *layout_of(13);
  const char* why = nullptr;
  ASSERT_TRUE(apply_debug_offsets(description().data(), layout, &why)) << why;
  EXPECT_EQ(std::memcmp(&layout, layout_of(13), sizeof layout), 0);
}

TEST(Layout, TheDescriptionIsTaken) {
  auto words = description();
  words[29] = 1234;
  Layout layout = *layout_of(13);
  const char* why = nullptr;
  ASSERT_TRUE(apply_debug_offsets(words.data(), layout, &why));
  EXPECT_EQ(layout.frame_previous, 1234);
}

TEST(Layout, OlderVersionsDescribeNothing) {
  Layout layout = *layout_of(12);
  const char* why = nullptr;
  EXPECT_TRUE(apply_debug_offsets(nullptr, layout, &why));
}

TEST(Layout, AnythingOddIsRefused) {
  Layout layout = *layout_of(13);
  const char* why = nullptr;
  EXPECT_FALSE(apply_debug_offsets(nullptr, layout, &why));
  auto words = description();
  words[0] ^= 1;
  EXPECT_EQ(refusal(words), "_PyRuntime does not start with its description");
  words = description();
  words[1] = 0x030e00f0;
  EXPECT_EQ(refusal(words), "_PyRuntime describes another version");
  words = description();
  words[2] = 1;
  EXPECT_EQ(refusal(words), "free-threaded builds are not supported");
  for (size_t word : {43, 45, 66, 68, 69}) {
    words = description();
    words[word] += 8;
    EXPECT_EQ(refusal(words), "its objects are laid out differently") << word;
  }
}

}  // namespace
}  // namespace devtrace::python
