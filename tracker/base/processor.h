// What differs from one processor to another: x86-64 and arm64 (aarch64).
#pragma once

#include <sys/auxv.h>

#include <cstddef>

namespace devtrace {

// Hot: in a loop that waits for another thread.
inline void pause_processor() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  __asm__ volatile("isb");  // takes about as long; `yield` takes no time
#endif
}

// Of a page of this machine's: arm64's kernels have 4, 16 or 64 KiB. No call of the C library's that could be hooked.
inline size_t page_bytes() {
#ifdef __x86_64__
  return 4096;
#else
  static const size_t bytes = ::getauxval(AT_PAGESZ);
  return bytes;
#endif
}

}  // namespace devtrace
