// devtrace report --format parquet: logs as tables.
#pragma once

#include <string>
#include <vector>

namespace devtrace::cli {

// Appends what these logs, and those in and below these folders, say to the tables in `folder`. What is there already
// is left as it is. Returns the exit code. Throws Failure.
int write_tables(const std::vector<std::string>& logs, const std::string& folder, bool redact);

}  // namespace devtrace::cli
