// devtrace's own words on stderr, apart from reports.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace devtrace {

// Writes "devtrace: <text>\n" to stderr in one write(2). Never fails visibly: a closed or broken stderr is no fault of
// the program's. Control bytes are escaped: a path or an option may hold any.
void warn(std::string_view text);
// Lines of our own, with their ends.
void say_lines(const std::string& text);

// Whether verbose=1: set with the process's options. For decisions that are made once, never where an event passes:
//   if (verbose()) explain("…");
extern std::atomic<bool> verbose_wanted;
inline bool verbose() {
  return verbose_wanted.load(std::memory_order_relaxed);
}
// The same as say, of one decision. Without malloc: decisions are made under locks of ours and of the loader's.
[[gnu::format(printf, 1, 2)]] void explain(const char* format, ...);

}  // namespace devtrace
