// Names that programs give to what they keep from one call to the next.
#pragma once

#include <string_view>

namespace devtrace {

// A name that belongs to a cache of keys and values or another state that outlives a call.
bool names_a_cache(std::string_view name);

}  // namespace devtrace
