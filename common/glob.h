// The patterns of policies and suppressions.
#pragma once

#include <string_view>

namespace devtrace {

// `*` stands for any characters, `^` at the start and `$` at the end bind the pattern to the text's; else it matches
// anywhere in it. Linear in the text for each star.
bool pattern_matches(std::string_view pattern, std::string_view text);

}  // namespace devtrace
