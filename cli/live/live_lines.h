// What `devtrace attach` and `devtrace top` show while they stay: each finding as it comes, memory by device, and what
// moves between devices. On a terminal the latter two are a table that is drawn over; else lines, each when there is
// something new.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/live/device_memory.h"
#include "cli/live/live_log.h"
#include "common/live_memory.h"

namespace devtrace::cli::live {

// A process that is looked on at.
struct Watched {
  LiveLog log;
  std::optional<LiveMemory> memory;  // as it was last read
  MemoryChanges changes;
};

class LiveLines {
 public:
  LiveLines();
  // What is new of one; `several`: lines name their process.
  void show(Watched& one, const LiveLog::News& news, bool several);
  // Ranks that wait, and for whom, as they stand now. What is there only once is not shown: they have come meanwhile.
  void take_ranks(std::vector<std::string> rows);
  void draw(const std::vector<const Watched*>& all);
  void clear();

 private:
  void print_row(const std::string& row);

  bool terminal_;
  size_t columns_;
  int drawn_ = 0;                          // lines of the table
  std::vector<std::string> seen_, ranks_;  // at the last look; those that were there twice
};

// One site's row: "cuda:1 → cpu   1.2 GiB/s   31.4 GiB  step (serve.py:77)".
std::string row_of(const LiveLog::Site& site, LiveLog::Clock::time_point now);

// Its first `columns` characters.
std::string cut(const std::string& text, size_t columns);

}  // namespace devtrace::cli::live
