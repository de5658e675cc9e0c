// Where CPython keeps what a frame can reach: its variables, and what lists, tuples, dicts and instances hold. As data:
// one row a version.
#pragma once

#include <cstdint>

#include "tracker/python/layout.h"

namespace devtrace::python {

// Where an instance's attributes are.
enum class Instances : uint8_t {
  dict_offset,     // a dict at the type's tp_dictoffset
  two_pointers,    // 3.11: values, else a dict, before the object
  tagged_pointer,  // 3.12: one pointer before the object, to values if it is odd
  inline_values,   // 3.13 on: a dict before the object, else values behind it
};

// Offsets in bytes.
struct ObjectLayout {
  int minor;               // CPython 3.minor
  uint16_t frame_locals;   // in the frame (Layout): its first variable
  uint16_t frame_globals;  // dict
  uint16_t frame_dict;     // the variables of a module's or a class's body, a dict
  uint16_t code_arguments;
  uint16_t code_keyword_only;
  uint16_t code_flags;
  uint16_t code_names;  // tuple of str: of all variables, or before 3.11 of all but cells
  int16_t code_kinds;   // bytes: what each variable is; kAbsent before 3.11
  int16_t code_cells;   // tuples of names of the cells that follow the variables; kAbsent from 3.11 on
  int16_t code_frees;
  bool small_keys;  // dict keys with logarithms and a kind (3.11 on)
  uint16_t keys_indices;
  uint16_t keys_entries;  // their number
  uint16_t values;        // in a split dict's values: the first
  uint16_t cached_keys;   // in a class: the keys that its instances share
  Instances instances;
  uint16_t tuple_items = 24;    // in the object itself
  uint16_t before_object = 24;  // Instances but dict_offset: from the dict, or what leads to it, to the object
};

// The same in every supported version, but for Layout::extra_header.
constexpr uint16_t kTypeName = 24;
constexpr uint16_t kTypeBasicSize = 32;
constexpr uint16_t kTypeFlags = 168;
constexpr uint16_t kIntSize = 16;    // digits and sign: kTaggedInts
constexpr uint16_t kIntDigits = 24;  // of 30 bits, the lowest first
constexpr uint16_t kTypeDict = 264;
constexpr uint16_t kTypeDictOffset = 288;
constexpr uint16_t kTypeBases = 344;  // the tuple of all, the class itself first
constexpr uint16_t kCellContents = 16;
constexpr uint16_t kListItems = 24;  // a pointer to them
constexpr uint16_t kDictKeys = 32;
constexpr uint16_t kDictValues = 40;
constexpr uint16_t kKeysIndexBytes = 9;  // small_keys: their logarithm, and then the kind of keys
constexpr uint16_t kKeysKind = 10;
constexpr uint64_t kInlineValuesFlag = 1u << 2;  // of a type
constexpr uint64_t kManagedDictFlag = 1u << 4;
constexpr uint64_t kHeapTypeFlag = 1u << 9;
constexpr uint64_t kIntFlag = 1u << 24;
constexpr uint64_t kListFlag = 1u << 25;
constexpr uint64_t kTupleFlag = 1u << 26;
constexpr uint64_t kDictFlag = 1u << 29;
constexpr uint64_t kExceptionFlag = 1u << 30;
constexpr uint64_t kTypeFlag = 1u << 31;
constexpr uint32_t kOptimized = 0x1;  // of a code object: its variables are not in a dict
constexpr uint32_t kVarArguments = 0x4;
constexpr uint32_t kVarKeywords = 0x8;
constexpr uint8_t kHiddenVariable = 0x10;  // of a variable's kind

// From 3.12 on the number of an int's digits stands above three bits, of which two say the sign; before, it has the
// sign.
constexpr int kTaggedInts = 12;

// nullptr for a version that is not known.
const ObjectLayout* object_layout_of(const Layout& layout);

}  // namespace devtrace::python
