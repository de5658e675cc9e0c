// A finding for people, on a terminal.
#pragma once

#include <string>

#include "report/record/json.h"

namespace devtrace::report {

// Of the process that had the finding; empty where there is none, or it is known to the reader.
struct Files {
  std::string log, html;
};

// The short report for stderr, ending in '\n': 25 lines, and more only where the cause needs them. `finding` as it is
// in the log, with its cause.
std::string text(const Json& process, const Json& finding, bool colour, const Files& files = {}) noexcept;

}  // namespace devtrace::report
