// Of a kernel that reads another device's memory: the note where nobody saw whether the program had allowed that,
// because devtrace was attached later. Nothing says that it is meant.
#pragma once

#include <string_view>

namespace devtrace {

inline constexpr std::string_view kAccessNotKnown = "it is not known whether the program enabled peer access";

}  // namespace devtrace
