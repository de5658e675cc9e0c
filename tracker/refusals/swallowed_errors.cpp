#include "tracker/refusals/swallowed_errors.h"

#include <string_view>

namespace devtrace::refusals {
namespace {

// To make a note of more: a row. `file` is the end of a path; `function` that of the function's qualified name, empty:
// any.
struct Row {
  std::string_view file, function;
  const char* reason;
};
constexpr char kPatterns[] = "the compiler tries its patterns, and leaves out what one of them refuses";
constexpr char kShows[] = "a tool shows values, and says where it cannot";
constexpr Row kRows[] = {
    {"/torch/_inductor/pattern_matcher.py", "check_fn", kPatterns},
    {"/torch/_inductor/constant_folding.py", "", "the compiler tries which results are constant"},
    {"/torch/_dynamo/debug_utils.py", "", "the compiler's minifier runs what fails, to make it smaller"},
    {"/torch/_dynamo/repro/after_dynamo.py", "", "the compiler's minifier runs what fails, to make it smaller"},
    {"/IPython/core/formatters.py", "", kShows},
    {"/IPython/core/completer.py", "", kShows},
    {"/reprlib.py", "", kShows},
    {"/_pytest/_io/saferepr.py", "", kShows},
    {"/_pytest/assertion/util.py", "", kShows},
};

}  // namespace

std::optional<std::string> swallowed(const std::vector<evidence::Frame>& frames) {
  for (const evidence::Frame& frame : frames)
    for (const Row& row : kRows)
      if (frame.file.ends_with(row.file) && (row.function.empty() || frame.function.ends_with(row.function)))
        return row.reason;
  return std::nullopt;
}

}  // namespace devtrace::refusals
