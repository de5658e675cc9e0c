// Memory for what a hook must remember: taken with mmap, handed out by bumping. Only tables that a larger one replaces
// are given back.
//
// Why not malloc: a hook may run inside malloc, or under a lock that malloc's caller holds. Lock-free, so that a fork
// in the middle of another thread's allocation leaves nothing locked in the child.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "tracker/base/assert.h"

namespace devtrace {

class Arena {
 public:
  // Constant-initialised: usable from the first instruction of the process, before any constructor has run.
  constexpr Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `bytes` of zeroed memory aligned to `alignment` (a power of two, at most a page). nullptr only when the kernel
  // refuses memory; errno is left as it was.
  void* allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) noexcept {
    DEVTRACE_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= kPage);
    if (bytes > kLargest) return map(round_up(bytes, kPage));
    const size_t reach = bytes + alignment - 1;  // enough to align inside, whatever the offset is
    for (Chunk* chunk = current_.load(std::memory_order_acquire);;) {
      if (chunk != nullptr && chunk->used.load(std::memory_order_relaxed) <= kChunk) {
        const size_t offset = chunk->used.fetch_add(reach, std::memory_order_relaxed);
        if (offset + reach <= kChunk) {
          return reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(chunk) + offset, alignment));
        }
      }
      void* fresh = map(kChunk);
      if (fresh == nullptr) return nullptr;
      Chunk* next = new (fresh) Chunk;
      if (current_.compare_exchange_strong(chunk, next, std::memory_order_acq_rel)) {
        chunk = next;
      } else {  // another thread was first: use its chunk
        munmap(fresh, kChunk);
        held_.fetch_sub(kChunk, std::memory_order_relaxed);
      }
    }
  }

  // A `T` built in the arena; its destructor never runs. nullptr when the kernel refuses memory.
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) noexcept {
    void* place = allocate(sizeof(T), alignof(T));
    return place == nullptr ? nullptr : new (place) T(std::forward<Arguments>(arguments)...);
  }

  // `count` zeroed objects of a type for which all zeroes is a valid value. nullptr when the kernel refuses memory.
  template <class T>
  T* make_array(size_t count) noexcept {
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }

  // Gives back what make_array() gave, which nobody reads any more. Small ones stay: they share their pages.
  template <class T>
  void release(T* array, size_t count) noexcept {
    if (count * sizeof(T) <= kLargest) return;
    const size_t bytes = round_up(count * sizeof(T), kPage);
    keep_errno([&] { munmap(array, bytes); });
    held_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // The same while somebody may still be reading it: the addresses stay, and what is read there is zero.
  template <class T>
  void release_memory(T* array, size_t count) noexcept {
    if (count * sizeof(T) <= kLargest) return;
    const size_t bytes = round_up(count * sizeof(T), kPage);
    keep_errno([&] { madvise(array, bytes, MADV_DONTNEED); });
    held_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Bytes taken from the kernel and not given back. Pages that were never touched cost no memory.
  size_t bytes_held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    std::atomic<size_t> used{sizeof(Chunk)};
  };
  static constexpr size_t kPage = 4096;
  static constexpr size_t kChunk = size_t{1} << 20;
  static constexpr size_t kLargest =
      kChunk / 8;  // larger requests get their own mapping: little is lost at a chunk's end

  template <class Call>
  static void keep_errno(const Call& call) noexcept {
    const int saved = errno;
    call();
    errno = saved;
  }

  static constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) & ~(multiple - 1); }

  void* map(size_t bytes) noexcept {
    const int saved = errno;
    void* fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
      errno = saved;
      return nullptr;
    }
    held_.fetch_add(bytes, std::memory_order_relaxed);
    return fresh;
  }

  std::atomic<Chunk*> current_{nullptr};
  std::atomic<size_t> held_{0};
};

}  // namespace devtrace
