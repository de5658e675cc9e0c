// Steps of a name as Python code has it: `.ids` of `batch.ids`.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace devtrace {

// `.ids` of `batch.ids`, `["ids"]` of `batch["ids"]`; empty for a variable.
inline std::string_view last_step(std::string_view name) {
  const size_t at = name.ends_with(']') ? name.rfind('[') : name.rfind('.');
  return at == name.npos ? std::string_view() : name.substr(at);
}

// With the quotes that names have, `batch["ids"]` for `batch['ids']`.
inline std::string with_one_quote(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\'', '"');
  return out;
}

// What has it, `batch` of both; empty for a variable.
inline std::string_view holder_of(std::string_view name) {
  const std::string_view step = last_step(name);
  return step.empty() ? step : name.substr(0, name.size() - step.size());
}

}  // namespace devtrace
