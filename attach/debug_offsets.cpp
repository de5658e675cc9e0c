#include "attach/debug_offsets.h"

#include <cstring>

namespace devtrace::attach {
namespace {

enum Word : size_t { kCookie, kVersion, kFreeThreaded, kRuntimeSize, kFinalizing, kInterpretersHead };
constexpr size_t kInterpreterSize = 6, kThreadsMain = 10, kThreadSize = 22;

// Its last six words, by minor version.
struct Support {
  uint64_t minor;
  size_t first;
};
constexpr Support kSupport[] = {{14, 89}, {15, 105}};
enum InSupport : size_t { kEvalBreaker, kSupportInThread, kEnabled, kPendingCall, kScriptPath, kScriptPathSize };

}  // namespace

std::optional<DebugOffsets> parse_debug_offsets(std::span<const uint64_t> words) {
  if (words.size() < DebugOffsets::kMostWords || std::memcmp(&words[kCookie], "xdebugpy", 8) != 0) return std::nullopt;
  if (words[kVersion] >> 24 != 3) return std::nullopt;
  for (const Support& row : kSupport) {
    if (row.minor != (words[kVersion] >> 16 & 0xff)) continue;
    const auto at = [&](InSupport word) { return words[row.first + word]; };
    const DebugOffsets offsets{words[kFinalizing],
                               words[kInterpretersHead],
                               words[kThreadsMain],
                               at(kEnabled),
                               at(kEvalBreaker),
                               at(kSupportInThread) + at(kPendingCall),
                               at(kSupportInThread) + at(kScriptPath)};
    // An early build of a version may have laid it out otherwise: a wrong place must never be written to.
    const uint64_t thread = words[kThreadSize];
    const bool fits =
        at(kScriptPathSize) == DebugOffsets::kPathBytes && offsets.eval_breaker < 256 &&
        offsets.eval_breaker % 8 == 0 && offsets.pending_call % 4 == 0 && offsets.pending_call < offsets.script_path &&
        offsets.script_path + DebugOffsets::kPathBytes <= thread && thread < (1u << 16) &&
        offsets.finalizing < words[kRuntimeSize] && offsets.interpreters_head < words[kRuntimeSize] &&
        offsets.threads_main < words[kInterpreterSize] && offsets.remote_debugging_enabled < words[kInterpreterSize];
    return fits ? std::optional(offsets) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace devtrace::attach
