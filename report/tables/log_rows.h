// The rows that one log gives.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "report/log/redact.h"
#include "report/record/log_reader.h"
#include "report/tables/columns.h"

namespace devtrace::report::tables {

// What a log is known by, wherever it lies, and while it grows.
struct LogIdentity {
  std::filesystem::path path;
  std::string id;         // 16 hexadecimal digits, of its first line
  uint64_t bytes = 0;     // its size; what is written later is left to the next time
  std::string date;       // YYYY-MM-DD, UTC, when its first process began; 1970-01-01: it does not say
  std::string host;       // … its machine
  uint64_t outgrown = 0;  // what of it was written before; 0: nothing
};

// Reads the first line alone. `redact`: `host` stands for the machine without naming it, the same as long as the
// machine has not been started anew. Throws LogError.
LogIdentity identify(const std::filesystem::path& log, bool redact);

// For each of kTables its rows, a JSON object a line.
struct LogRows {
  std::array<std::string, kTables.size()> text;
};

// Memory: one log's rows, and its longest line. Findings that lack a fingerprint or a cause get them. A redactor gives
// rows that may leave the house. Throws LogError, as read_log does; `warnings` are what that has to say.
LogRows rows_of(const LogIdentity& log, Redactor* redactor, std::vector<std::string>& warnings);

}  // namespace devtrace::report::tables
