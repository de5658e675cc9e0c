#include "tracker/own_code.h"

#include <cstddef>

// The linker's: where the object begins that this code is in, and where its code ends.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char etext[];

namespace devtrace::own_code {
namespace {

// A hook and what it calls; one frame's bytes.
constexpr size_t kMostFrames = 8;
constexpr uintptr_t kMostBytes = 1 << 14;

bool is_own(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(__ehdr_start) <
         static_cast<uintptr_t>(etext - reinterpret_cast<const char*>(__ehdr_start));
}

}  // namespace

[[gnu::noinline]] uintptr_t caller() {
  const auto* frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  for (size_t i = 0; i < kMostFrames; ++i) {
    const uintptr_t return_address = frame[1];
    if (!is_own(return_address)) return return_address - 1;
    const uintptr_t outer = frame[0], here = reinterpret_cast<uintptr_t>(frame);
    if (outer <= here || outer - here > kMostBytes) return 0;
    frame = reinterpret_cast<const uintptr_t*>(outer);
  }
  return 0;
}

}  // namespace devtrace::own_code
