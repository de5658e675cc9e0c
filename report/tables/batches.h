// Which logs are written together, and which a folder of tables holds already.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/tables/log_rows.h"

namespace devtrace::report::tables {

// The new logs of one date and host: one file in each table.
struct Batch {
  std::string partition;  // "date=2026-11-28/host=gpu-07", as Hive writes it
  std::string name;       // of its files, without an extension: of these logs and their sizes
  std::vector<LogIdentity> logs;
};

struct Plan {
  std::vector<Batch> batches;  // by partition
  size_t known = 0;            // logs that were there, or stand twice among those given
};

// What of these logs is not in the folder yet, or has grown since. The folder's `_logs` says what is there; whoever
// writes a batch leaves its manifest there last.
Plan plan(std::vector<LogIdentity> logs, const std::filesystem::path& folder);

// The manifest of a batch: a line for each log, with its path if that may be told.
std::string manifest(const Batch& batch, bool with_paths);

}  // namespace devtrace::report::tables
