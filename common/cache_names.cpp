#include "common/cache_names.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace devtrace {

static bool says_of_it(std::string_view rest) {
  for (const std::string_view word : {"_position", "_index", "_indices", "_len", "_size", "_ids", "_mask"})
    if (rest.starts_with(word)) return true;
  return false;
}

bool names_a_cache(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view word : {"cache", "past_key", "past_value", "layer_past", "presents", "past["}) {
    const size_t at = lower.find(word);
    // `cache_position` says where in a cache.
    if (at != lower.npos && !says_of_it(std::string_view(lower).substr(at + word.size()))) return true;
  }
  return lower == "past" || lower == "present";
}

}  // namespace devtrace
