// What `devtrace fix` leaves: devtrace-fix.jsonl, and what is shown of it.
#pragma once

#include <string>

#include "fix/trials/conclusion.h"

namespace devtrace::cli {

// The process, the findings, what was tried, the end: records of a log (docs/reference/log.md).
void write_fix_log(const fix::SearchResult& result, const fix::Conclusion& conclusion, const std::string& log);

// The log's HTML page, unless `page` is empty, and its findings on standard output, if `text`.
void show_fix_log(const std::string& log, const std::string& page, bool text);

}  // namespace devtrace::cli
