// Memory of a thread's own that is too large for a variable of a thread: each of the first that ask has a place, the
// others are without. Plain data, no destructor: hooks still run while a thread's destructors do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace devtrace::stacks {

// A variable of the thread's: which place it has.
struct OwnPlace {
  uint16_t number = 0;  // from 1; 0: none
  bool in_use = false;
};

template <class T>
class ThreadMemory {
 public:
  // Null: the thread has none.
  T* at(const OwnPlace& own) { return own.number != 0 ? &places_[own.number - 1] : nullptr; }

  [[gnu::noinline]] T* take(OwnPlace& own) {
    if (taken_.load(std::memory_order_relaxed) >= kThreads) return nullptr;
    const size_t place = taken_.fetch_add(1);
    if (place < kThreads) own.number = static_cast<uint16_t>(place + 1);
    return at(own);
  }

 private:
  static constexpr size_t kThreads = 128;
  T places_[kThreads] = {};
  std::atomic<size_t> taken_{0};
};

// The calling thread's memory, while nobody else of this thread uses it: a signal's handler may come in between. A
// thread without a place gets one where `may_take()`.
template <class T>
class Remembering {
 public:
  template <class MayTake>
  [[gnu::always_inline]] Remembering(ThreadMemory<T>& all, OwnPlace& own, const MayTake& may_take) : own_(own) {
    if (own.in_use) [[unlikely]]
      return;
    memory_ = all.at(own);
    if (!memory_) [[unlikely]] {
      if (!may_take() || !(memory_ = all.take(own))) return;
    }
    own.in_use = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  [[gnu::always_inline]] ~Remembering() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (memory_) own_.in_use = false;
  }
  Remembering(const Remembering&) = delete;
  Remembering& operator=(const Remembering&) = delete;

  T* get() const { return memory_; }  // null: it remembers nothing

 private:
  OwnPlace& own_;
  T* memory_ = nullptr;
};

}  // namespace devtrace::stacks
