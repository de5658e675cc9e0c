#include "common/glob.h"

#include <string>

namespace devtrace {
namespace {

// A glob of `*` alone, bound to both ends. Only the last star is ever tried again.
bool glob(std::string_view pattern, std::string_view text) {
  size_t at = 0, in = 0, star = pattern.npos, resume = 0;
  while (in < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && pattern[at] == text[in]) {
      ++at;
      ++in;
    } else if (star != pattern.npos) {
      at = star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace

bool pattern_matches(std::string_view pattern, std::string_view text) {
  const bool from_start = pattern.starts_with('^'), to_end = pattern.ends_with('$');
  if (from_start) pattern.remove_prefix(1);
  if (to_end) pattern.remove_suffix(1);
  std::string whole;
  if (!from_start) whole += '*';
  whole += pattern;
  if (!to_end) whole += '*';
  return glob(whole, text);
}

}  // namespace devtrace
