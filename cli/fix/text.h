// What `devtrace fix` says of a search behind its findings.
#pragma once

#include <string>

#include "fix/trials/conclusion.h"

namespace devtrace::cli {

// On standard output what was tried for each finding, the patch in the file `patch`, and what came of it; on standard
// error what went wrong.
void print_fix_text(const fix::SearchResult& result, const fix::Conclusion& conclusion, const std::string& patch);

}  // namespace devtrace::cli
