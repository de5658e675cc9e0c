// The Python stack that a thread had when it was asked for last. One operation of PyTorch's asks several times, for
// each device guard and each block. No line of Python has run in between, and that is seen by two words a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracker/python/layout.h"

namespace devtrace::stacks {

class LastStack {
 public:
  static constexpr size_t kMost = 100;  // frames

  // A frame has to say where it is by the address of an instruction: the same instruction is the same code object's, as
  // long as none died. Copies of instructions that threads have to themselves are given back while their code lives.
  static bool knows(const python::Layout& layout) {
    return layout.instruction == python::Instruction::pointer && layout.frame_copy == python::kAbsent;
  }

  // The id that was kept, if every frame from `frame` outwards is where it was then; else 0. `deaths`: how many code
  // objects of kept stacks have died.
  uint32_t find(const python::Layout& layout, uintptr_t frame, uint64_t deaths) const {
    if (deaths != deaths_) return 0;
    const size_t to_instruction = layout.frame_instruction, to_previous = layout.frame_previous;
    const Place* place = places_.data();
    const Place* const end = place + count_;
    for (; place != end; ++place) {
      if (frame != place->frame || word_at(frame + to_instruction) != place->instruction) return 0;
      frame = word_at(frame + to_previous);
    }
    return frame == 0 ? id_ : 0;
  }

  // A deeper stack than there is room for is not kept.
  void keep(const python::Layout& layout, uintptr_t frame, uint64_t deaths, uint32_t id) {
    id_ = 0;
    size_t count = 0;
    for (; frame != 0; frame = word_at(frame + layout.frame_previous)) {
      if (count == kMost) return;
      places_[count++] = {frame, word_at(frame + layout.frame_instruction)};
    }
    count_ = count;
    deaths_ = deaths;
    id_ = id;
  }

 private:
  struct Place {
    uintptr_t frame, instruction;
  };

  static uintptr_t word_at(uintptr_t address) {
    uintptr_t word;
    std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
    return word;
  }

  std::array<Place, kMost> places_{};
  size_t count_ = 0;
  uint64_t deaths_ = 0;
  uint32_t id_ = 0;
};

}  // namespace devtrace::stacks
