#include "tracker/python/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace devtrace::python {
namespace {

// What CPython 3.13.0 (x86-64) has at the start of _PyRuntime, word index and value; as much as is read of any version.
std::vector<uint64_t> description() {
  std::vector<uint64_t> words(93);
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
  Layout layout = *layout_of(13, false);
  const char* why = "";
  return apply_debug_offsets(words.data(), layout, &why) ? "" : why;
}

TEST(Layout, UnknownVersionsHaveNoRow) {
  EXPECT_EQ(layout_of(8, false), nullptr);
  EXPECT_EQ(layout_of(16, false), nullptr);
  EXPECT_EQ(layout_of(0, false), nullptr);
  EXPECT_EQ(layout_of(12, true), nullptr);
  EXPECT_EQ(layout_of(16, true), nullptr);
  for (int minor = 9; minor <= 15; ++minor) EXPECT_EQ(layout_of(minor, false)->minor, minor);
  for (int minor = 13; minor <= 15; ++minor) {
    EXPECT_EQ(layout_of(minor, true)->minor, minor);
    EXPECT_TRUE(layout_of(minor, true)->free_threaded);
  }
}

// offsetof in the headers of CPython 3.13.15, 3.14.8 and 3.15.0, built without a GIL.
TEST(Layout, WithoutAGilHeadersAreLonger) {
  EXPECT_EQ(layout_of(13, true)->frame_owner, 70);
  EXPECT_EQ(layout_of(13, true)->code_instructions, 216);
  EXPECT_EQ(layout_of(13, true)->frame_copy, kAbsent);
  EXPECT_EQ(layout_of(13, true)->str_kind, 2);
  for (int minor : {14, 15}) {
    const Layout& layout = *layout_of(minor, true);
    EXPECT_EQ(layout.frame_owner, 78);
    EXPECT_EQ(layout.frame_copy, 72);
    EXPECT_EQ(layout.code_copies, 224);
    EXPECT_EQ(layout.code_instructions, 232);
    EXPECT_EQ(layout.code_first_traceable, 208);
    EXPECT_EQ(layout.str_kind, 8);
  }
  for (int minor : {13, 14, 15}) {
    const Layout& layout = *layout_of(minor, true);
    EXPECT_EQ(kObjectType + layout.extra_header, 24);
    EXPECT_EQ(kTypeDealloc + layout.extra_header, 64);
    EXPECT_EQ(layout.code_filename, 128);
    EXPECT_EQ(layout.code_first_line, 84);
    EXPECT_EQ(layout.code_line_table, 152);
    EXPECT_EQ(layout.ascii_payload, 56);
    EXPECT_EQ(layout.compact_payload, 72);
  }
}

TEST(Layout, ANewerVersionIsReadAsTheNewestKnown) {
  EXPECT_EQ(layout_as_newest(8, false), std::nullopt);
  EXPECT_EQ(layout_as_newest(15, false), std::nullopt);
  for (const bool free_threaded : {false, true}) {
    auto layout = layout_as_newest(16, free_threaded);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->minor, 16);
    EXPECT_EQ(layout->free_threaded, free_threaded);
    EXPECT_EQ(layout->code_instructions, layout_of(15, free_threaded)->code_instructions);
  }
}

// With both bits a word is an integer.
TEST(Layout, TagsAreTakenOff) {
  EXPECT_EQ(untagged(0x7f0010), 0x7f0010u);
  EXPECT_EQ(untagged(0x7f0011), 0x7f0010u);
  EXPECT_EQ(untagged(0x7f0012), 0x7f0010u);
  EXPECT_EQ(untagged(0x7f0013), 0u);
  EXPECT_EQ(untagged(1), 0u);
  EXPECT_EQ(untagged(0), 0u);
}

TEST(Layout, TheDescriptionSaysWhatTheRowSays) {
  Layout layout = *layout_of(13, false);
  const char* why = nullptr;
  ASSERT_TRUE(apply_debug_offsets(description().data(), layout, &why)) << why;
  EXPECT_EQ(std::memcmp(&layout, layout_of(13, false), sizeof layout), 0);
}

TEST(Layout, TheDescriptionIsTaken) {
  auto words = description();
  words[29] = 1234;
  Layout layout = *layout_of(13, false);
  const char* why = nullptr;
  ASSERT_TRUE(apply_debug_offsets(words.data(), layout, &why));
  EXPECT_EQ(layout.frame_previous, 1234);
}

TEST(Layout, OlderVersionsDescribeNothing) {
  Layout layout = *layout_of(12, false);
  const char* why = nullptr;
  EXPECT_TRUE(apply_debug_offsets(nullptr, layout, &why));
}

TEST(Layout, AnythingOddIsRefused) {
  Layout layout = *layout_of(13, false);
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
  EXPECT_EQ(refusal(words), "_PyRuntime describes another version");
  for (size_t word : {43, 45, 66, 68, 69}) {
    words = description();
    words[word] += 8;
    EXPECT_EQ(refusal(words), "its objects are laid out differently") << word;
  }
}

}  // namespace
}  // namespace devtrace::python
