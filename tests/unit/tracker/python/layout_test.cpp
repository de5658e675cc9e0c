// What is read of an interpreter's memory, by its version's layout; line tables' corners (whole ones:
// tests/e2e/process/test_stacks.py).
#include "tracker/python/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/tracker/stacks/embedded_python.h"
#include "tracker/python/line_table.h"
#include "tracker/python/objects/string_decoder.h"
#include "tracker/python/python_api.h"

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

// Hand-made tables: the corners. Whole tables of every Python's own standard library: tests/e2e/process/test_stacks.py.
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

namespace python = devtrace::python;
using devtrace::testing::EmbeddedPython;

namespace {

std::string seen;

// From before Python starts until after it has ended; what is wrong, or nothing.
std::string life(const std::string& path) {
  std::string out;
  if (python::api()) out += "there before it is loaded; ";
  const EmbeddedPython embedded(path);
  if (!embedded.library) return "cannot be loaded";
  if (python::api()) out += "usable before it starts; ";
  embedded.start("look", [] { seen += python::api() ? '1' : '0'; });
  embedded.get<int(const char*)>("PyRun_SimpleString")(
      "look()\nclass Late:\n def __del__(self, look=look): look()\nimport sys\nsys.late = Late()");
  embedded.get<int()>("Py_FinalizeEx")();
  if (seen != "10") out += "seen while it runs and while it ends: " + seen + "; ";
  if (python::api()) out += "usable after its end";
  return out;
}

}  // namespace

TEST(PythonApi, IsUsableWhilePythonRuns) {
  const std::vector<std::string> pythons = devtrace::testing::libpythons();
  if (pythons.empty()) GTEST_SKIP() << "no libpython here";
  for (const std::string& path : pythons)
    EXPECT_EQ(devtrace::testing::in_a_child([&] { return life(path); }), "") << path;
}
