// The Python stack that a thread had when it was asked for last, and the next one as a difference. Most stacks have the
// frames of the one before but for a few. What stands where it stood is seen by two words a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracker/python/layout.h"

namespace devtrace::stacks {

class LastStack {
 public:
  static constexpr size_t kMost = 512;  // frames

  // What a frame is to the key of its stack.
  struct Part {
    enum class Kind { counts, left_out, broken } kind;
    uint64_t key;
  };

  // A frame has to say where it is by the address of an instruction: the same instruction is the same code object's, as
  // long as none died. Copies of instructions that threads have to themselves are given back while their code lives.
  static bool knows(const python::Layout& layout) {
    return layout.instruction == python::Instruction::pointer && layout.frame_copy == python::kAbsent;
  }

  // Its id, if the stack whose innermost frame is `frame` is the same; else 0. One operation asks several times.
  uint32_t find(const python::Layout& layout, uintptr_t frame, uint64_t deaths) const {
    if (deaths + 1 != id_deaths_) return 0;
    const Place* const moved = first_moved(layout, &places_[count_], frame);
    return moved == &places_[0] && frame == 0 ? id_ : 0;
  }

  // Looks at the stack whose innermost frame is `top`. `read(frame)`, a Part, is asked of frames that have moved alone.
  // `deaths`: how many code objects of kept stacks have died, for a successor may have the same addresses.
  // False: it cannot be read, or is too deep, and nothing is kept.
  template <class Read>
  bool look(const python::Layout& layout, uintptr_t top, uint64_t deaths, const Read& read) {
    if (deaths != deaths_) forget_all();
    deaths_ = deaths;
    id_deaths_ = kNoId;
    places_[0].frame = kNowhere;
    // To the innermost frame that was there before. Inner frames have higher addresses, but for coroutines'.
    size_t known = count_, added = 0;
    uintptr_t frame = top;
    for (; frame != 0; frame = word_at(frame + layout.frame_previous)) {
      while (known > 0 && places_[known].frame > frame) --known;
      if (known > 0 && places_[known].frame == frame) break;
      if (added == kMost) return lose();
      added_[added++] = frame;
    }
    if (frame == 0) known = 0;
    if (known + added > kMost) return lose();
    for (; count_ > known; --count_) take(places_[count_]);
    const size_t to_instruction = layout.frame_instruction;
    for (Place* place = &places_[known];; frame = word_at(frame + layout.frame_previous), --place) {
      place = first_moved(layout, place, frame);
      if (place == &places_[0]) break;
      // Another caller, as a coroutine has that is awaited by another one: what is known of outer frames is of no use.
      if (frame != place->frame) return look_anew(layout, top, read);
      const Part part = part_of(layout, frame, read);
      if (part.kind == Part::Kind::broken) return lose();
      if ((part.kind == Part::Kind::counts) != place->counts) return look_anew(layout, top, read);
      take(*place);
      place->instruction = word_at(frame + to_instruction);
      place->part = place->counts ? part.key * kPowers[place->depth] : 0;
      hash_ += place->part;
    }
    if (frame != 0) return look_anew(layout, top, read);
    while (added > 0) {
      const uintptr_t next = added_[--added];
      const Part part = part_of(layout, next, read);
      if (part.kind == Part::Kind::broken) return lose();
      const bool counts = part.kind == Part::Kind::counts;
      const auto under = static_cast<uint32_t>(depth());
      places_[++count_] = {next, word_at(next + to_instruction), counts ? part.key * kPowers[under] : 0, under, counts};
      hash_ += places_[count_].part;
    }
    return true;
  }

  // Of the stack that was looked at: frames that count, and what hash = hash * kFactor + key makes of them, innermost
  // first, from `first` on. It is a sum in which each frame has a power of the factor to itself.
  size_t depth() const { return count_ == 0 ? 0 : places_[count_].depth + places_[count_].counts; }
  uint64_t hash(uint64_t first) const { return first * kPowers[depth()] + hash_; }
  static constexpr uint64_t kFactor = 0xff51afd7ed558ccd;

  // The id of the stack that was looked at. 0: none, and nobody watches for the death of its code.
  void keep(uint32_t id) {
    if (id == 0) return forget_all();
    id_ = id;
    id_deaths_ = deaths_ + 1;
  }

 private:
  struct Place {
    uintptr_t frame, instruction;
    uint64_t part;   // of the hash
    uint32_t depth;  // outer frames that count
    bool counts;
  };

  static constexpr auto kPowers = [] {
    std::array<uint64_t, kMost + 1> powers{1};
    for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kFactor;
    return powers;
  }();

  static uintptr_t word_at(uintptr_t address) {
    uintptr_t word;
    std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
    return word;
  }

  // The first place, from `place` on outwards, whose frame is another one or has moved; that in front of all when there
  // is none. `frame` is then what is there instead. Four at a time: most of what is done of a stack is done here.
  template <class Place>
  [[gnu::always_inline]] static Place* first_moved(const python::Layout& layout, Place* place, uintptr_t& frame) {
    const size_t to_instruction = layout.frame_instruction, to_previous = layout.frame_previous;
    for (;; place -= 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        Place& here = place[-i];
        if (frame != here.frame || word_at(frame + to_instruction) != here.instruction) return &here;
        frame = word_at(frame + to_previous);
      }
    }
  }

  // What `read` said of the same instruction before: a loop comes to its own again and again. Of frames that count
  // alone, for nobody watches for the death of other code.
  template <class Read>
  [[gnu::always_inline]] Part part_of(const python::Layout& layout, uintptr_t frame, const Read& read) {
    const uintptr_t instruction = word_at(frame + layout.frame_instruction);
    Known& known = known_[instruction / 2 % kKnown];
    if (known.behind == instruction + 1) return {Part::Kind::counts, known.key};
    const Part part = read(frame);
    if (part.kind == Part::Kind::counts) known = {instruction + 1, part.key};
    return part;
  }

  void take(const Place& place) {
    hash_ -= place.part;
  }

  void forget() {
    count_ = 0;
    hash_ = 0;
    id_deaths_ = kNoId;
  }
  void forget_all() {
    forget();
    known_ = {};
  }
  bool lose() {
    forget_all();
    return false;
  }
  template <class Read>
  bool look_anew(const python::Layout& layout, uintptr_t top, const Read& read) {
    forget();
    return look(layout, top, deaths_, read);
  }

  static constexpr size_t kKnown = 128;
  struct Known {
    uintptr_t behind = 0;  // the instruction's address and one, which is never 0
    uint64_t key = 0;
  };

  static constexpr uintptr_t kNowhere = 1;  // no frame's, and not what stands for no frame

  // From 1 on, the outermost first. In front of them is one at which no frame ever is: a search ends there.
  std::array<Place, kMost + 1> places_{};
  std::array<uintptr_t, kMost> added_{};
  std::array<Known, kKnown> known_{};
  size_t count_ = 0;
  uint64_t hash_ = 0, deaths_ = 0;
  static constexpr uint64_t kNoId = 0;  // all is 0 at first: the memory of threads that there are not is none
  uint64_t id_deaths_ = kNoId;          // how many had died when the id was kept, and one
  uint32_t id_ = 0;
};

}  // namespace devtrace::stacks
