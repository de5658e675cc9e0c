// Where CPython keeps its frames, as data: one row a version.
#pragma once

#include <cstdint>
#include <optional>

namespace devtrace::python {

enum class Instruction : uint8_t {
  byte_index,  // f_lasti, an int that counts bytes
  unit_index,  // f_lasti, an int that counts two-byte code units
  pointer,     // a pointer into the code object's own instructions
};

enum class LineTable : uint8_t {
  lnotab,   // bytes: (instruction bytes, signed lines), as co_lnotab up to 3.9
  pairs,    // PEP 626 pairs of 3.10: (instruction bytes, signed lines or -128 for "no line")
  varints,  // location table of 3.11 on
};

constexpr int16_t kAbsent = -1;

// Offsets in bytes. A frame is a frame object up to 3.10, an interpreter frame from 3.11 on.
struct Layout {
  int minor;                   // CPython 3.minor
  bool free_threaded = false;  // built without a GIL
  uint16_t extra_header = 0;   // bytes that an object's header has besides those of kObjectType and the like
  uint16_t thread_top;         // in the thread state: the top frame, or the structure that holds it
  int16_t holder_top;          // in that structure: the top frame; kAbsent: thread_top is the frame
  uint16_t frame_previous;     // towards the caller
  uint16_t frame_code;
  uint16_t frame_instruction;
  int16_t frame_owner;  // one byte; kAbsent: every frame is a Python frame
  int16_t shim_owner;   // owners from it on: frames that only mark an entry from C; kAbsent: there are none
  // Free-threaded builds from 3.14 on: each thread may run a copy of the instructions that is its own. Its number in
  // the frame, and the table of copies in the code object.
  int16_t frame_copy = kAbsent;
  int16_t code_copies = kAbsent;
  Instruction instruction;
  LineTable lines;
  uint16_t code_filename;
  uint16_t code_name;  // the qualified name, from 3.11 on
  uint16_t code_first_line;
  uint16_t code_line_table;
  uint16_t code_first_traceable;  // int: code units before it belong to the frame's set-up (Instruction::pointer only)
  uint16_t code_instructions;     // the instructions themselves (Instruction::pointer only)
  uint16_t ascii_payload;         // characters of a compact ASCII str
  uint16_t compact_payload;       // characters of any other compact str
  uint8_t str_kind = 2;  // in PyASCIIObject.state: the first bit of `kind`, with `compact` and `ascii` above it
};

// An interpreter frame's owner that may be suspended before its first traceable instruction and is a frame all the
// same.
constexpr uint8_t kOwnedByGenerator = 1;

// The same in every supported version, but for Layout::extra_header.
constexpr uint16_t kObjectType = 8;     // PyObject.ob_type
constexpr uint16_t kVarSize = 16;       // PyVarObject.ob_size
constexpr uint16_t kTypeDealloc = 48;   // PyTypeObject.tp_dealloc
constexpr uint16_t kBytesPayload = 32;  // PyBytesObject.ob_sval
constexpr uint16_t kStrHash = 24;       // PyASCIIObject.hash; -1: not asked for yet
constexpr uint16_t kStrLength = 16;     // PyASCIIObject.length, in characters
constexpr uint16_t kStrState = 32;      // PyASCIIObject.state

// A frame's word that leads to an object, from 3.14 on with marks in its lowest bits. They say whether a reference is
// counted, and with both of them set it is an integer. 0: no object. Before 3.14 these bits are 0.
constexpr uintptr_t kTagBits = 3;
constexpr uintptr_t untagged(uintptr_t word) {
  return (word & kTagBits) == kTagBits ? 0 : word & ~kTagBits;
}

// The row of CPython 3.minor; nullptr when there is none.
const Layout* layout_of(int minor, bool free_threaded);
// The newest row, with the number of a version that is newer: to be believed only after a comparison with what that
// Python says itself. Nothing for versions that are older.
std::optional<Layout> layout_as_newest(int minor, bool free_threaded);

// From 3.13 on CPython describes itself (`_Py_DebugOffsets`, the start of `_PyRuntime`): takes its values into
// `layout`. False, with `why` pointing to a constant text, when what is at `runtime` is not a description of
// 3.minor.
bool apply_debug_offsets(const void* runtime, Layout& layout, const char** why);

}  // namespace devtrace::python
