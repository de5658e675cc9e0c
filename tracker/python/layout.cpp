#include "tracker/python/layout.h"

#include <cstring>

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
};

constexpr int kSelfDescribing = 13;  // the first version with _Py_DebugOffsets

// The start of _PyRuntime in 3.13: a cookie, the version, whether free-threaded, then offsets in 64-bit words. The
// numbers are the indexes of those words.
enum DebugWord {
  kCookie = 0,
  kVersion = 1,
  kFreeThreaded = 2,
  kThreadCurrentFrame = 23,
  kFramePrevious = 29,
  kFrameExecutable = 30,
  kFrameInstruction = 31,
  kFrameOwner = 33,
  kCodeFilename = 35,
  kCodeQualname = 37,
  kCodeLineTable = 38,
  kCodeFirstLine = 39,
  kCodeInstructions = 43,
  kObjectTypeWord = 45,
  kBytesPayloadWord = 66,
  kStrStateWord = 68,
  kStrLengthWord = 69,
  kStrAsciiSize = 70,
};

}  // namespace

const Layout* layout_of(int minor) {
  for (const Layout& layout : kLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

bool apply_debug_offsets(const void* runtime, Layout& layout, const char** why) {
  if (layout.minor < kSelfDescribing) return true;
  if (runtime == nullptr) {
    *why = "it does not export _PyRuntime";
    return false;
  }
  uint64_t words[kStrAsciiSize + 1];
  std::memcpy(words, runtime, sizeof words);
  if (std::memcmp(&words[kCookie], "xdebugpy", 8) != 0) {
    *why = "_PyRuntime does not start with its description";
    return false;
  }
  if (words[kVersion] >> 24 != 3 || (words[kVersion] >> 16 & 0xff) != static_cast<uint64_t>(layout.minor)) {
    *why = "_PyRuntime describes another version";
    return false;
  }
  if (words[kFreeThreaded] != 0) {
    *why = "free-threaded builds are not supported";
    return false;
  }
  // What the reader holds for constant, and the field next to one that the description has not.
  if (words[kObjectTypeWord] != kObjectType || words[kBytesPayloadWord] != kBytesPayload ||
      words[kStrStateWord] != kStrState || words[kStrLengthWord] != kStrLength ||
      words[kCodeInstructions] != layout.code_instructions) {
    *why = "its objects are laid out differently";
    return false;
  }
  layout.thread_top = words[kThreadCurrentFrame];
  layout.frame_previous = words[kFramePrevious];
  layout.frame_code = words[kFrameExecutable];
  layout.frame_instruction = words[kFrameInstruction];
  layout.frame_owner = words[kFrameOwner];
  layout.code_filename = words[kCodeFilename];
  layout.code_name = words[kCodeQualname];
  layout.code_line_table = words[kCodeLineTable];
  layout.code_first_line = words[kCodeFirstLine];
  layout.ascii_payload = words[kStrAsciiSize];
  layout.compact_payload = words[kStrAsciiSize] + 16;  // PyCompactUnicodeObject adds a length and a pointer
  return true;
}

}  // namespace devtrace::python
