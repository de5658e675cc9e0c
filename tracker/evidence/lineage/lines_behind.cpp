#include "tracker/evidence/lineage/lines_behind.h"

#include <algorithm>

namespace devtrace::evidence {

constexpr size_t kMostBindings = 6;

std::vector<ReadLine> lines_behind(const python::Api& api, const FunctionText* function, const SourceText& source,
                                   const std::string& file, int line) {
  std::vector<int> numbers = {line};
  std::vector<ReadLine> lines;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string text = source.lines(file, numbers[i]);
    lines.push_back({numbers[i], text, read_expression(api, text, false, "").used});
    for (const Path& path : lines.back().used) {
      if (!function || i >= kMostBindings) break;
      if (path.variable == "self" || (!path.steps.empty() && asks_only(path.steps.back()))) continue;
      const auto given = function->settled_above(function->bindings(path.variable), numbers[i]);
      if (given && std::find(numbers.begin(), numbers.end(), *given) == numbers.end()) numbers.push_back(*given);
    }
  }
  return lines;
}

}  // namespace devtrace::evidence
