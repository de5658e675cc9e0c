// devtrace's own words on stderr, apart from reports.
#pragma once

#include <string_view>

namespace devtrace {

// Writes "devtrace: <text>\n" to stderr in one write(2). Never fails visibly: a closed or broken stderr is no fault of
// the program's.
void say(std::string_view text);

}  // namespace devtrace
