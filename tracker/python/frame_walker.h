// The frames of one thread, read as plain memory. The thread must be the calling one: its frames do not change while it
// is in a hook, whoever holds the GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracker/python/layout.h"

namespace devtrace::python {

struct RawFrame {
  uintptr_t code = 0;   // the code object
  int64_t offset = -1;  // of the instruction: bytes into its bytecode; negative before the first
  uintptr_t frame = 0;
};

// Frames kept of a stack. Deeper ones (recursion) are left out, and the stack says so.
constexpr size_t kMaxDepth = 512;

enum class WalkEnd {
  outermost,  // the whole stack was visited
  too_deep,   // kMaxDepth frames were visited, and there are more
  broken,     // what was read cannot be a stack
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

namespace detail {

// Where the copy of the instructions begins that the frame's thread runs; the first is the code object's own.
template <class Memory>
inline bool own_copy(const Layout& layout, const Memory& memory, uintptr_t frame, uintptr_t code, uintptr_t& begin) {
  int32_t number;
  if (!memory.read(frame + static_cast<uintptr_t>(layout.frame_copy), number)) return false;
  if (number <= 0) return true;
  uintptr_t copies;
  int64_t count;
  return memory.read(code + static_cast<uintptr_t>(layout.code_copies), copies) && memory.read(copies, count) &&
         number < count && memory.read(copies + sizeof(uintptr_t) * (1 + static_cast<uintptr_t>(number)), begin);
}

}  // namespace detail

enum class FrameKind { counts, left_out, broken };

// Reads frames of one way to keep the instruction: what differs between versions is decided once and not at each frame.
// Frames have owners where instructions are pointers, and nowhere else.
template <Instruction kInstruction, class Memory>
class FrameReader {
 public:
  FrameReader(const Layout& layout, const Memory& memory, uintptr_t code_type)
      : layout_(layout),
        memory_(memory),
        code_type_(code_type),
        to_previous_(layout.frame_previous),
        to_code_(layout.frame_code),
        to_instruction_(layout.frame_instruction),
        to_owner_(static_cast<size_t>(layout.frame_owner)),
        shim_owner_(layout.shim_owner == kAbsent ? kMostOwners : layout.shim_owner),
        to_type_(kObjectType + layout.extra_header) {}

  // `previous` is set unless it is broken, `raw` where the frame counts.
  FrameKind read(uintptr_t frame, RawFrame& raw, uintptr_t& previous, LeftOut* left_out) const {
    if (!memory_.read(frame + to_previous_, previous)) return FrameKind::broken;
    uint8_t owner = 0;
    if constexpr (kOwned) {
      if (!memory_.read(frame + to_owner_, owner)) return FrameKind::broken;
      if (owner >= shim_owner_) return FrameKind::left_out;
    }
    raw.frame = frame;
    uintptr_t type;
    if (!memory_.read(frame + to_code_, raw.code)) return FrameKind::broken;
    raw.code = untagged(raw.code);
    if (!memory_.read(raw.code + to_type_, type)) return FrameKind::broken;
    if (type != code_type_) [[unlikely]] {
      if (left_out != nullptr) ++left_out->foreign;
      return FrameKind::left_out;
    }
    if constexpr (kInstruction == Instruction::pointer) {
      uintptr_t instruction;
      int32_t first;  // in code units
      if (!memory_.read(frame + to_instruction_, instruction) ||
          !memory_.read(raw.code + layout_.code_first_traceable, first)) {
        return FrameKind::broken;
      }
      uintptr_t first_instruction = raw.code + layout_.code_instructions;
      if (layout_.frame_copy != kAbsent && !detail::own_copy(layout_, memory_, frame, raw.code, first_instruction))
        return FrameKind::broken;
      raw.offset = static_cast<int64_t>(instruction - first_instruction);
      if (raw.offset >= 2 * static_cast<int64_t>(first) || owner == kOwnedByGenerator) return FrameKind::counts;
      if (left_out != nullptr) ++left_out->in_set_up;
      return FrameKind::left_out;
    } else {
      int32_t index;
      if (!memory_.read(frame + to_instruction_, index)) return FrameKind::broken;
      raw.offset = kInstruction == Instruction::unit_index && index > 0 ? 2 * static_cast<int64_t>(index) : index;
      return FrameKind::counts;
    }
  }

 private:
  static constexpr int kMostOwners = 256;
  static constexpr bool kOwned = kInstruction == Instruction::pointer;

  const Layout& layout_;
  const Memory& memory_;
  uintptr_t code_type_;
  size_t to_previous_, to_code_, to_instruction_, to_owner_;
  int shim_owner_;
  size_t to_type_;
};

// Of frames that do not count. Ends a ring of them, if memory holds one; those that count end at kMaxDepth.
constexpr size_t kMaxSkipped = 15 * kMaxDepth;

namespace detail {

template <Instruction kInstruction, class Memory, class Visit>
inline WalkEnd walk(const Layout& layout, const Memory& memory, uintptr_t code_type, uintptr_t frame, Visit&& visit,
                    LeftOut* left_out) {
  const FrameReader<kInstruction, Memory> frames(layout, memory, code_type);
  size_t depth = 0, skipped = 0;
  while (frame != 0) {
    RawFrame raw;
    uintptr_t previous;
    const FrameKind found = frames.read(frame, raw, previous, left_out);
    if (found == FrameKind::counts) [[likely]] {
      if (depth == kMaxDepth) return WalkEnd::too_deep;
      ++depth;
      visit(raw);
    } else if (found == FrameKind::broken) {
      return WalkEnd::broken;
    } else if (++skipped == kMaxSkipped) {
      return WalkEnd::too_deep;
    }
    frame = previous;
  }
  return WalkEnd::outermost;
}

}  // namespace detail

// The innermost of the thread's frames, 0 where it has none; false: it cannot be read.
template <class Memory>
inline bool top_frame(const Layout& layout, const Memory& memory, uintptr_t thread, uintptr_t& frame) {
  if (!memory.read(thread + layout.thread_top, frame)) return false;
  return layout.holder_top == kAbsent || frame == 0 || memory.read(frame + layout.holder_top, frame);
}

// Calls visit(RawFrame) for each frame that Python itself would show, innermost first. `code_type` is the address of
// PyCode_Type. What is left out is counted in *left_out if that is not null.
template <class Memory, class Visit>
inline WalkEnd walk(const Layout& layout, const Memory& memory, uintptr_t code_type, uintptr_t thread, Visit&& visit,
                    LeftOut* left_out = nullptr) {
  uintptr_t frame;
  if (!top_frame(layout, memory, thread, frame)) return WalkEnd::broken;
  switch (layout.instruction) {
    case Instruction::pointer:
      return detail::walk<Instruction::pointer>(layout, memory, code_type, frame, visit, left_out);
    case Instruction::unit_index:
      return detail::walk<Instruction::unit_index>(layout, memory, code_type, frame, visit, left_out);
    case Instruction::byte_index:
      break;
  }
  return detail::walk<Instruction::byte_index>(layout, memory, code_type, frame, visit, left_out);
}

}  // namespace devtrace::python
