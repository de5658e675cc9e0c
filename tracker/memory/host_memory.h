// Is a word an address of the host's ordinary memory, which devices cannot reach?
#pragma once

#include <cstdint>

namespace devtrace::memory::host_memory {

// Where user space ends. On arm64 libraries, stacks and what is mapped lie above x86-64's end.
#ifdef __x86_64__
constexpr uintptr_t kEnd = uintptr_t{1} << 47;
#else
constexpr uintptr_t kEnd = uintptr_t{1} << 48;
#endif

// Hot, a comparison: what is outside is null, a small number, or no address of user space.
constexpr uintptr_t kFirst = uintptr_t{1} << 22;
inline bool in_range(uintptr_t word) {
  return word - kFirst < kEnd - kFirst;
}

// Hot. Whether it may be: not null, no small number, an address that user space can have, and not remembered.
namespace detail {
bool possible(uintptr_t word);
}
inline bool possible(uintptr_t word) {
  return in_range(word) && detail::possible(word);
}
// What was found to be no such address, or within reach: its page is not asked about again, until pinned or managed
// memory is freed.
void remember_harmless(uintptr_t word);
void forget_harmless();

// Whether something that this process can read lies there. A system call; false where the kernel forbids it.
bool readable(uintptr_t address);

}  // namespace devtrace::memory::host_memory
