// The one place that says which devtrace this is.
#pragma once

namespace devtrace {
inline constexpr const char* kVersion = "0.1.0";
}
