// Kernels by the handles with which they are launched: what is known of each is asked once and kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/kernel.h"

namespace devtrace::launch::kernels {

namespace detail {
// A thread launches few kernels many times, and many threads the same ones: each has a small memory of its own, so that
// none waits for another. Small, as are all variables of threads here: a process that opens this library late has
// little room left for them (glibc's static TLS surplus).
constexpr size_t kPlaces = 128;
constexpr size_t kTried = 8;  // a kernel stands at its place, or at one of the next ones
struct Memory {
  const Kernel* places[kPlaces];
  uint32_t generation;  // of everything in it
};
[[gnu::visibility("hidden")]] extern thread_local constinit Memory memory;
[[gnu::visibility("hidden")]] extern std::atomic<uint32_t> generation;  // of all that is known

// Functions are aligned to 16 bytes, handles come from malloc: nothing but the upper bits of a product is well mixed.
inline size_t place_of(uintptr_t function) {
  return static_cast<uint32_t>(function) * 0x9E3779B1u / (0x100000000 / kPlaces);
}
}  // namespace detail

// Hot. What `remember` was told about this function, if this thread has asked for it before and still remembers.
inline const Kernel* remembered(const void* function) {
  if (detail::memory.generation != detail::generation.load(std::memory_order_relaxed)) [[unlikely]]
    return nullptr;
  const size_t first = detail::place_of(reinterpret_cast<uintptr_t>(function));
  for (size_t i = 0; i < detail::kTried; ++i) {
    const Kernel* const kernel = detail::memory.places[(first + i) % detail::kPlaces];
    if (!kernel) return nullptr;
    if (kernel->function == function) [[likely]]
      return kernel;
  }
  return nullptr;
}

// Hot. What `remember` was told about this function; null before.
const Kernel* known(const void* function);
// A function whose kernel has that name; null: none has. Slow.
const void* named(std::string_view name);
// Keeps it, and answers with what is kept: another thread may have been faster. Allocates.
const Kernel* remember(const void* function, std::string name, const std::vector<device::Parameter>& parameters);
// Leaves of the kernel's words those that its code may use as addresses. PyTorch leaves fields unset that a kernel does
// not read, and what lies there is often an old pointer. Where nobody knows the code (`uses` is empty), the whole
// structures are left out. Allocates.
void ask_code(const Kernel& kernel, const WordUses& uses);
// Handles of unloaded modules are given out again: what is known of functions is asked anew.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::launch::kernels
