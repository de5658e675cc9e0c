// What a search found, as records of a log (docs/reference/log.md) and as text.
#pragma once

#include <string>
#include <vector>

#include "fix/trials/search.h"

namespace devtrace::fix {

// The records of devtrace-fix.jsonl: the process, each finding with `cause.verified`, what was tried (`fix`), `end`.
std::vector<Json> records(const SearchResult& result, const std::string& patch);

// The table of what was tried for one finding, a line each.
std::string table(const Round& round);

// One paragraph: what came of it.
std::string summary(const SearchResult& result, const std::string& patch);

}  // namespace devtrace::fix
