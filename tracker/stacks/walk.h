// The frames of one thread, read as plain memory. The thread must be the calling one: its frames do not change while it
// is in a hook, whoever holds the GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracker/stacks/layout.h"

namespace devtrace::stacks {

struct RawFrame {
  uintptr_t code = 0;   // the code object
  int64_t offset = -1;  // of the instruction: bytes into its bytecode; negative before the first
  uintptr_t frame = 0;
};

// Frames kept of a stack. Deeper ones (recursion) are left out, and the stack says so.
constexpr size_t kMaxDepth = 512;

enum class WalkEnd {
  kOutermost,  // the whole stack was visited
  kTooDeep,    // kMaxDepth frames were visited, and there are more
  kBroken,     // what was read cannot be a stack
};

// The fastest way to read: trusts every address.
struct PlainMemory {
  template <class T>
  bool read(uintptr_t address, T& value) const {
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return true;
  }
};

struct LeftOut {
  size_t foreign = 0;    // frames that run something else than a code object
  size_t in_set_up = 0;  // frames before their first traceable instruction: Python does not show them either
};

// Calls visit(RawFrame) for each frame that Python itself would show, innermost first. `code_type` is the address of
// PyCode_Type. What is left out is counted in *left_out if that is not null.
template <class Memory, class Visit>
inline WalkEnd walk(const Layout& layout, const Memory& memory, uintptr_t code_type, uintptr_t thread, Visit&& visit,
                    LeftOut* left_out = nullptr) {
  // Shims and frames in set-up count here only. Ends a ring, if memory holds one.
  constexpr size_t kMaxSteps = 16 * kMaxDepth;
  uintptr_t frame;
  if (!memory.read(thread + layout.thread_top, frame)) return WalkEnd::kBroken;
  if (layout.holder_top != kAbsent && frame != 0 && !memory.read(frame + layout.holder_top, frame)) {
    return WalkEnd::kBroken;
  }
  size_t depth = 0;
  for (size_t step = 0; frame != 0; ++step) {
    if (step == kMaxSteps) return WalkEnd::kTooDeep;
    uintptr_t previous;
    if (!memory.read(frame + layout.frame_previous, previous)) return WalkEnd::kBroken;
    uint8_t owner = 0;
    if (layout.frame_owner != kAbsent) {
      if (!memory.read(frame + layout.frame_owner, owner)) return WalkEnd::kBroken;
      if (owner == layout.shim_owner) {
        frame = previous;
        continue;
      }
    }
    RawFrame raw;
    raw.frame = frame;
    uintptr_t type;
    if (!memory.read(frame + layout.frame_code, raw.code) || !memory.read(raw.code + kObjectType, type)) {
      return WalkEnd::kBroken;
    }
    bool counts = type == code_type;
    if (!counts) {
      if (left_out != nullptr) ++left_out->foreign;
    } else if (layout.instruction == Instruction::kPointer) {
      uintptr_t instruction;
      int32_t first;  // in code units
      if (!memory.read(frame + layout.frame_instruction, instruction) ||
          !memory.read(raw.code + layout.code_first_traceable, first)) {
        return WalkEnd::kBroken;
      }
      raw.offset = static_cast<int64_t>(instruction - raw.code - layout.code_instructions);
      counts = owner == kOwnedByGenerator || raw.offset >= 2 * static_cast<int64_t>(first);
      if (!counts && left_out != nullptr) ++left_out->in_set_up;
    } else {
      int32_t index;
      if (!memory.read(frame + layout.frame_instruction, index)) return WalkEnd::kBroken;
      raw.offset = layout.instruction == Instruction::kUnitIndex && index > 0 ? 2 * static_cast<int64_t>(index) : index;
    }
    if (counts) {
      if (depth == kMaxDepth) return WalkEnd::kTooDeep;
      ++depth;
      visit(raw);
    }
    frame = previous;
  }
  return WalkEnd::kOutermost;
}

}  // namespace devtrace::stacks
