// Distinct stacks, each kept once: texts, frames made of texts, and a tree of frames whose nodes are the stacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tracker/base/arena.h"
#include "tracker/base/assert.h"

namespace devtrace::stacks {

// Items by number, 1 up to kMax, in memory that never moves. Written by one thread at a time; an item may be read by
// any thread that got its number after it was added.
template <class T>
class Numbered {
 public:
  static constexpr uint32_t kMax = (uint32_t{1} << 24) - 1;

  constexpr Numbered() = default;

  const T& operator[](uint32_t number) const {
    DEVTRACE_ASSERT(number != 0 && number <= count());
    return segments_[number / kSegment].load(std::memory_order_acquire)[number % kSegment];
  }
  T& at(uint32_t number) {
    DEVTRACE_ASSERT(number != 0 && number <= count());
    return segments_[number / kSegment].load(std::memory_order_relaxed)[number % kSegment];
  }

  // The new item's number; 0 when there are kMax of them or memory is refused.
  uint32_t add(const T& item, Arena& arena) {
    const uint32_t number = count_.load(std::memory_order_relaxed) + 1;
    if (number > kMax) return 0;
    std::atomic<T*>& segment = segments_[number / kSegment];
    T* items = segment.load(std::memory_order_relaxed);
    if (items == nullptr) {
      items = arena.make_array<T>(kSegment);
      if (items == nullptr) return 0;
      segment.store(items, std::memory_order_release);
    }
    items[number % kSegment] = item;
    count_.store(number, std::memory_order_release);
    return number;
  }

  uint32_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kSegment = 4096;
  std::atomic<T*> segments_[(kMax + 1) / kSegment] = {};
  std::atomic<uint32_t> count_{0};
};

// Numbers by content: open addressing, written and read under the caller's lock.
class NumberIndex {
 public:
  constexpr NumberIndex() = default;

  // The number whose item `same(number)` holds for, or 0.
  template <class Same>
  uint32_t find(uint64_t hash, Same&& same) const {
    if (slots_ == nullptr) return 0;
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i] == 0) return 0;
      if (same(slots_[i])) return slots_[i];
    }
  }

  // False when memory is refused. `hash_of(number)`: the hash that the number was added with.
  template <class HashOf>
  bool add(uint64_t hash, uint32_t number, Arena& arena, HashOf&& hash_of) {
    if (slots_ == nullptr || 2 * (count_ + 1) > mask_ + 1) {
      const size_t larger = slots_ == nullptr ? 1024 : 2 * (mask_ + 1);
      uint32_t* slots = arena.make_array<uint32_t>(larger);
      if (slots == nullptr) return false;
      uint32_t* old = slots_;
      const size_t old_size = slots_ == nullptr ? 0 : mask_ + 1;
      slots_ = slots;
      mask_ = larger - 1;
      for (size_t i = 0; i < old_size; ++i) {
        if (old[i] != 0) put(hash_of(old[i]), old[i]);
      }
      arena.release(old, old_size);
    }
    put(hash, number);
    ++count_;
    return true;
  }

 private:
  void put(uint64_t hash, uint32_t number) {
    size_t i = hash & mask_;
    while (slots_[i] != 0) i = (i + 1) & mask_;
    slots_[i] = number;
  }

  uint32_t* slots_ = nullptr;  // 0: free
  size_t mask_ = 0;
  size_t count_ = 0;
};

// Adding is for one thread at a time (the caller's lock); reading what an id stands for needs no lock.
class StackDepot {
 public:
  struct Frame {
    std::string_view file;
    std::string_view function;
    int line;
  };

  // The id of a frame with this content; 0 when full. The texts are copied.
  uint32_t add_frame(std::string_view file, std::string_view function, int line, Arena& arena);

  // The id of the stack that calls `frame` from `caller` (0: the outermost frame); 0 when full. One with a frame in
  // which PyTorch calls a module is marked, and so is all that is called from it.
  uint32_t add_call(uint32_t caller, uint32_t frame, Arena& arena);

  // Hot: two loads. Whether the stack is marked so.
  bool in_module_call(uint32_t stack) const { return stack != 0 && nodes_[stack].in_module_call; }

  // Says that this id was given out as a stack, not just as a part of one.
  void count_stack(uint32_t stack, Arena& arena);

  // Calls visit(Frame), innermost first. Nothing for 0 or a number that was never an id.
  template <class Visit>
  void for_each_frame(uint32_t stack, Visit&& visit) const {
    if (stack > nodes_.count()) return;
    while (stack != 0) {
      const Node& node = nodes_[stack];
      const FrameItem& frame = frames_[node.frame];
      visit(Frame{text(frame.file), text(frame.function), frame.line});
      stack = node.caller;
    }
  }

  // Distinct stacks given out, and distinct frames.
  size_t frames() const { return frames_.count(); }
  size_t stacks() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  struct Text {
    const char* bytes;
    uint32_t size;
  };
  struct FrameItem {
    uint32_t file;
    uint32_t function;
    int32_t line;
  };
  struct Node {
    uint32_t caller;
    uint32_t frame : 24;
    uint32_t in_module_call : 1;
  };
  static_assert(Numbered<FrameItem>::kMax < 1 << 24 && sizeof(Node) == 8);

  bool calls_module(const FrameItem& frame) const;
  std::string_view text(uint32_t number) const { return {texts_[number].bytes, texts_[number].size}; }
  uint32_t add_text(std::string_view content, Arena& arena);

  Numbered<Text> texts_;
  Numbered<FrameItem> frames_;
  Numbered<Node> nodes_;
  Numbered<bool> is_stack_;  // by a node's number
  NumberIndex text_index_;
  NumberIndex frame_index_;
  NumberIndex node_index_;
  std::atomic<size_t> stacks_{0};
};

}  // namespace devtrace::stacks
