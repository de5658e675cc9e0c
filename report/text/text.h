// A finding for people, on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "report/record/json.h"

namespace devtrace::report {

// The short report for stderr, ending in '\n'. `finding` as it is in the log, with its cause. `html_path`: where the
// HTML report lies, empty for none.
std::string text(const Json& process, const Json& finding, bool colour, std::string_view html_path) noexcept;

}  // namespace devtrace::report
