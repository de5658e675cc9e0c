// A finding for a bug tracker or a job's page.
#pragma once

#include <string>

#include "report/in_process.h"

namespace devtrace::report {

// GitHub-flavoured Markdown, ending in '\n'. Names and code lie in code spans and fences longer than any run of
// backticks in them.
std::string markdown(const Json& process, const Json& finding);

}  // namespace devtrace::report
