#include "tracker/python/layout.h"

#include <cstring>
#include <iterator>

namespace devtrace::python {
namespace {

// A new version: add its row, and its interpreter to tests/e2e/process/test_stacks.py. The values come from the
// version's own headers (offsetof); reading is refused at run time where they do not hold.
constexpr Layout kLayouts[] = {
    {.minor = 9,
     .thread_top = 24,
     .holder_top = kAbsent,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 104,
     .frame_owner = kAbsent,
     .shim_owner = kAbsent,
     .instruction = Instruction::byte_index,
     .lines = LineTable::lnotab,
     .code_filename = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_line_table = 120,
     .code_first_traceable = 0,
     .code_instructions = 0,
     .ascii_payload = 48,
     .compact_payload = 72},
    {.minor = 10,
     .thread_top = 24,
     .holder_top = kAbsent,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 96,
     .frame_owner = kAbsent,
     .shim_owner = kAbsent,
     .instruction = Instruction::unit_index,
     .lines = LineTable::pairs,
     .code_filename = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_line_table = 120,
     .code_first_traceable = 0,
     .code_instructions = 0,
     .ascii_payload = 48,
     .compact_payload = 72},
    {.minor = 11,
     .thread_top = 56,
     .holder_top = 8,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_instruction = 56,
     .frame_owner = 69,
     .shim_owner = kAbsent,
     .instruction = Instruction::pointer,
     .lines = LineTable::varints,
     .code_filename = 112,
     .code_name = 128,
     .code_first_line = 72,
     .code_line_table = 136,
     .code_first_traceable = 168,
     .code_instructions = 184,
     .ascii_payload = 48,
     .compact_payload = 72},
    {.minor = 12,
     .thread_top = 56,
     .holder_top = 0,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .shim_owner = 3,
     .instruction = Instruction::pointer,
     .lines = LineTable::varints,
     .code_filename = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_first_traceable = 176,
     .code_instructions = 192,
     .ascii_payload = 40,
     .compact_payload = 56},
    {.minor = 13,
     .thread_top = 72,
     .holder_top = kAbsent,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .shim_owner = 3,
     .instruction = Instruction::pointer,
     .lines = LineTable::varints,
     .code_filename = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_first_traceable = 184,
     .code_instructions = 200,
     .ascii_payload = 40,
     .compact_payload = 56},
    {.minor = 14,
     .thread_top = 72,
     .holder_top = kAbsent,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 74,
     .shim_owner = 3,
     .instruction = Instruction::pointer,
     .lines = LineTable::varints,
     .code_filename = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_first_traceable = 192,
     .code_instructions = 208,
     .ascii_payload = 40,
     .compact_payload = 56},
    {.minor = 15,
     .thread_top = 72,
     .holder_top = kAbsent,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 74,
     .shim_owner = 3,
     .instruction = Instruction::pointer,
     .lines = LineTable::varints,
     .code_filename = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_first_traceable = 192,
     .code_instructions = 208,
     .ascii_payload = 40,
     .compact_payload = 56},
};

// Without a GIL an object's header is longer, and with it all that follows.
constexpr Layout free_threaded(Layout layout) {
  constexpr uint16_t kExtraHeader = 16;
  layout.free_threaded = true;
  layout.extra_header = kExtraHeader;
  for (uint16_t* field :
       {&layout.code_filename, &layout.code_name, &layout.code_first_line, &layout.code_line_table,
        &layout.code_first_traceable, &layout.code_instructions, &layout.ascii_payload, &layout.compact_payload})
    *field += kExtraHeader;
  if (layout.minor >= 14) {
    layout.str_kind = 8;
    layout.frame_copy = layout.frame_owner - 2;
    layout.frame_owner += 4;
    layout.code_copies = static_cast<int16_t>(layout.code_instructions);
    layout.code_instructions += sizeof(void*);
  }
  return layout;
}

constexpr Layout kFreeThreaded[] = {free_threaded(kLayouts[4]), free_threaded(kLayouts[5]), free_threaded(kLayouts[6])};
static_assert(kFreeThreaded[0].minor == 13 && kFreeThreaded[2].minor == 15);

// The start of _PyRuntime: a cookie, the version, whether free-threaded, then offsets in 64-bit words. The numbers are
// the indexes of those words; each version has put in some of its own.
constexpr size_t kCookie = 0, kVersion = 1, kFreeThreadedWord = 2;
struct DebugWords {
  int minor;
  uint8_t thread_current_frame, frame_previous, frame_executable, frame_instruction, frame_owner, code_filename,
      code_qualname, code_line_table, code_first_line, code_instructions, object_type, bytes_payload, str_state,
      str_length, str_ascii_size;
};
constexpr DebugWords kDebugWords[] = {
    {13, 23, 29, 30, 31, 33, 35, 37, 38, 39, 43, 45, 66, 68, 69, 70},
    {14, 26, 32, 33, 34, 36, 40, 42, 43, 44, 48, 51, 76, 78, 79, 80},
    {15, 26, 40, 41, 42, 44, 48, 50, 51, 52, 56, 59, 88, 90, 91, 92},
};
constexpr int kSelfDescribing = 13;  // the first version with _Py_DebugOffsets
constexpr int kNewest = 15;
constexpr size_t kMostWords = 93;

template <class Rows>
const Layout* row_of(const Rows& rows, int minor) {
  for (const Layout& layout : rows)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

// A newer version's description is read as the newest known one's.
const DebugWords& words_of(int minor) {
  for (const DebugWords& row : kDebugWords)
    if (row.minor == minor) return row;
  return kDebugWords[std::size(kDebugWords) - 1];
}

}  // namespace

const Layout* layout_of(int minor, bool free_threaded) {
  return free_threaded ? row_of(kFreeThreaded, minor) : row_of(kLayouts, minor);
}

std::optional<Layout> layout_as_newest(int minor, bool free_threaded) {
  if (minor <= kNewest) return std::nullopt;
  Layout layout = *layout_of(kNewest, free_threaded);
  layout.minor = minor;
  return layout;
}

bool apply_debug_offsets(const void* runtime, Layout& layout, const char** why) {
  if (layout.minor < kSelfDescribing) return true;
  if (runtime == nullptr) {
    *why = "it does not export _PyRuntime";
    return false;
  }
  uint64_t words[kMostWords];
  std::memcpy(words, runtime, sizeof words);
  if (std::memcmp(&words[kCookie], "xdebugpy", 8) != 0) {
    *why = "_PyRuntime does not start with its description";
    return false;
  }
  if (words[kVersion] >> 24 != 3 || (words[kVersion] >> 16 & 0xff) != static_cast<uint64_t>(layout.minor) ||
      (words[kFreeThreadedWord] != 0) != layout.free_threaded) {
    *why = "_PyRuntime describes another version";
    return false;
  }
  const DebugWords& at = words_of(layout.minor);
  // What the reader holds for constant, and the field next to one that the description has not.
  const uint64_t header = layout.extra_header;
  if (words[at.object_type] != kObjectType + header || words[at.bytes_payload] != kBytesPayload + header ||
      words[at.str_state] != kStrState + header || words[at.str_length] != kStrLength + header ||
      words[at.code_instructions] != layout.code_instructions) {
    *why = "its objects are laid out differently";
    return false;
  }
  layout.thread_top = words[at.thread_current_frame];
  layout.frame_previous = words[at.frame_previous];
  layout.frame_code = words[at.frame_executable];
  layout.frame_instruction = words[at.frame_instruction];
  layout.frame_owner = words[at.frame_owner];
  layout.code_filename = words[at.code_filename];
  layout.code_name = words[at.code_qualname];
  layout.code_line_table = words[at.code_line_table];
  layout.code_first_line = words[at.code_first_line];
  layout.ascii_payload = words[at.str_ascii_size];
  layout.compact_payload = words[at.str_ascii_size] + 16;  // PyCompactUnicodeObject adds a length and a pointer
  return true;
}

}  // namespace devtrace::python
