// Tells a code object from a later one at the same address, without touching either.
//
// An address of a code object identifies it only while it lives. Every death of a code object whose address was marked
// moves the generation of that address on, so a key made of address and generation never names two code objects.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace devtrace::stacks {

class CodeGenerations {
 public:
  constexpr CodeGenerations() = default;

  uint32_t generation(uintptr_t code) const { return generations_[bucket(code)].load(std::memory_order_relaxed); }

  // Of code objects that were marked.
  uint64_t deaths() const { return deaths_.load(std::memory_order_relaxed); }

  // A key with this address is now kept. Must come after the key was made: a death in between then either is seen here,
  // or has already made the key one that is never asked for again.
  void mark(uintptr_t code) {
    const size_t bit = mark_of(code);
    marks_[bit / 64].fetch_or(uint64_t{1} << bit % 64);
  }

  // The code object there is going. The mark must go before the generation moves (see mark).
  void died(uintptr_t code) {
    const size_t bit = mark_of(code);
    const uint64_t mask = uint64_t{1} << bit % 64;
    if ((marks_[bit / 64].load() & mask) == 0) return;  // nearly all: code that never was on a kept stack
    marks_[bit / 64].fetch_and(~mask);
    generations_[bucket(code)].fetch_add(1);
    deaths_.fetch_add(1);
  }

 private:
  static constexpr size_t kBuckets = 4096;
  static constexpr size_t kMarks = 65536;
  // Code objects are aligned to 16 bytes, and lie one beside the other.
  static size_t mark_of(uintptr_t code) { return code >> 4 & (kMarks - 1); }
  // From the same bits as the mark: addresses that share a mark share a generation, so one's death, which takes the
  // mark from the other, also retires the other's keys.
  static size_t bucket(uintptr_t code) { return code >> 4 & (kBuckets - 1); }

  std::atomic<uint32_t> generations_[kBuckets] = {};
  std::atomic<uint64_t> deaths_ = 0;
  std::atomic<uint64_t> marks_[kMarks / 64] = {};
};

}  // namespace devtrace::stacks
