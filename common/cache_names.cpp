#include "common/cache_names.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace devtrace {

bool names_a_cache(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view word : {"cache", "past_key", "past_value", "layer_past", "presents", "past["}) {
    if (lower.find(word) != lower.npos) return true;
  }
  return lower == "past" || lower == "present";
}

}  // namespace devtrace
