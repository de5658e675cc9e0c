// What CPython 3.14 and later tell debuggers of themselves (_Py_DebugOffsets at the start of _PyRuntime), as far as it
// is needed to have the main thread run a script.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace devtrace::attach {

struct DebugOffsets {
  static constexpr size_t kMostWords = 128;
  static constexpr size_t kPathBytes = 512;

  // From the runtime's start; from an interpreter's; from a thread's.
  uint64_t finalizing, interpreters_head;
  uint64_t threads_main, remote_debugging_enabled;
  uint64_t eval_breaker, pending_call, script_path;
};

// `words`: what stands at _PyRuntime. Nothing: another version, or something there is out of all proportion.
std::optional<DebugOffsets> parse_debug_offsets(std::span<const uint64_t> words);

}  // namespace devtrace::attach
