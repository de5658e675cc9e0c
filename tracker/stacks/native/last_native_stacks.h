// Native stacks that a thread had again and again. Whether it has one of them now is seen by the words of the stack
// that say where frames go on. These are one or two comparisons a frame, a fifth of what finding the frames takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tracker/stacks/native/caller.h"

namespace devtrace::stacks {

// A word of the stack that holds where a frame's caller goes on, or its frame pointer.
struct StackWord {
  const uintptr_t* place;
  uintptr_t value;
};

class LastNativeStacks {
 public:
  static constexpr size_t kMostWords = 128;

  // Hot. The id of the stack that goes on at `hook`, if it is a kept one; else 0. A frame's instruction, stack pointer
  // and frame pointer decide where its caller's stand. So a word that is read is a frame's: all those inside of it are
  // what they were.
  uint32_t find(const caller::Frame& hook) const {
    const Kept& kept = kept_[place_of(hook)];
    if (kept.hook.address != hook.address || kept.hook.stack != hook.stack || kept.hook.frame != hook.frame) return 0;
    const StackWord* const end = kept.words.data() + kept.count;
    for (const StackWord* word = kept.words.data(); word != end; ++word)
      if (*word->place != word->value) return 0;
    return kept.id;
  }

  // A stack that was not found here has that key and that id. `words_of(words, most)` says how many there are, and is
  // asked where the same stack has come several times in turn: twice as many each time, for it takes long.
  template <class WordsOf>
  void came(const caller::Frame& hook, uint64_t key, uint32_t id, const WordsOf& words_of) {
    Kept& kept = kept_[place_of(hook)];
    if (kept.key != key) kept.key = key, kept.times = 0;
    if (++kept.times < 2 + kept.patience) return;
    kept.times = 0;
    if (kept.patience < kMostPatience) kept.patience = 2 * kept.patience + 2;
    kept.count = words_of(kept.words.data(), kMostWords);
    kept.id = id;
    kept.hook = kept.count == 0 ? caller::Frame{} : hook;
  }

 private:
  static constexpr size_t kPlaces = 8;
  static constexpr uint32_t kMostPatience = 1 << 16;
  struct Kept {
    caller::Frame hook;  // whose address is 0: none is kept
    uint32_t id = 0;
    size_t count = 0;
    uint64_t key = 0;  // of the stack that came last and was not found
    uint32_t times = 0, patience = 0;
    std::array<StackWord, kMostWords> words{};
  };

  static size_t place_of(const caller::Frame& hook) { return (hook.address ^ hook.stack) / 16 % kPlaces; }

  std::array<Kept, kPlaces> kept_{};
};

}  // namespace devtrace::stacks
