// What single frames of a thread add to a stack's key, as long as they stand where they stood. Statement by statement a
// program's outer frames stay the same, and are known by two words each; only the others are read in full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace devtrace::stacks {

// For layouts that LastStack::knows.
class KnownFrames {
 public:
  struct Entry {
    uintptr_t frame = 0, instruction = 0;
    uint64_t key = 0;
  };

  // The place of the frame at this address. It may be another's that had it before.
  Entry& at(uintptr_t frame) { return entries_[frame * 0x9e3779b97f4a7c15 >> (64 - kBits)]; }

  // To be called before each use: a code object's successor may have its addresses. `deaths`: how many code objects of
  // kept stacks have died.
  void forget_the_dead(uint64_t deaths) {
    if (deaths != deaths_) clear();
    deaths_ = deaths;
  }
  void clear() { entries_ = {}; }

 private:
  static constexpr unsigned kBits = 8;
  std::array<Entry, size_t{1} << kBits> entries_{};
  uint64_t deaths_ = 0;
};

}  // namespace devtrace::stacks
