// Logs from disk, one record at a time, whoever wrote them: cut off, empty, foreign, of a later schema, or made to do
// harm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/record/finding_line.h"
#include "report/record/json.h"

namespace devtrace::report {

// A log that cannot be read at all. what(): one line, beginning with "file:line: " (or "file: ").
struct LogError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LogReading {
  uint64_t records = 0;
  // Things that a reader must be told and that leave the rest readable: one line each, beginning as LogError's do.
  std::vector<std::string> warnings;
  bool ended = false;  // an `end` record was there: else the process was killed, or is still running
};

// Longer lines are no record of ours, and are passed over without being held in memory.
constexpr size_t kLongestLine = 64u << 20;

// A file to read from its beginning to its end. Throws LogError where it cannot be opened, and for what may have no end
// or nobody who writes it: a FIFO, a socket, a device.
std::ifstream open_file(const std::filesystem::path& file);

// Asked of each finding before it is parsed, where its line begins and ends as ours do. True: its record is not wanted.
using PassOver = std::function<bool(const FindingLine&)>;
// Asked of each whole line behind the first one, before it is parsed. True: it has been dealt with. Not to be said of
// `process` and `end`.
using TakeLine = std::function<bool(std::string_view line)>;

// Calls `record` for each record, in order. Memory is bounded by the longest line. Throws LogError when this is no
// devtrace log: empty, not JSON Lines, the first record not `process`, or of a later schema.
LogReading read_log(std::istream& in, const std::string& file, const std::function<void(Json&&)>& record,
                    const PassOver& pass_over = {}, const TakeLine& take_line = {});
LogReading read_log(const std::filesystem::path& file, const std::function<void(Json&&)>& record,
                    const PassOver& pass_over = {}, const TakeLine& take_line = {});

// The logs that an argument means: the file itself, or a folder's devtrace-*.jsonl (any *.jsonl when there is none), by
// name. Throws LogError when there is nothing to read.
std::vector<std::filesystem::path> logs_at(const std::filesystem::path& path);

// The same for a gate, which may overlook nothing: every *.jsonl in the folder and in those below it, whatever its
// name. Links to folders are not followed.
std::vector<std::filesystem::path> all_logs_at(const std::filesystem::path& path);

}  // namespace devtrace::report
