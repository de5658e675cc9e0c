// What `devtrace attach` shows while it stays: each finding as it comes, and what moves between devices. On a terminal
// the latter is a table that is drawn over; else it is a line for each change.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "report/base/json_access.h"

namespace devtrace::report::command {

// One process's log, read as it grows.
class LiveLog {
 public:
  LiveLog(pid_t process, std::string path) : process_(process), path_(std::move(path)) {}

  struct Site {
    std::string from, to, place;
    uint64_t bytes = 0, per_second = 0;
    bool changed = false;
  };
  struct News {
    std::vector<std::string> lines;  // of findings
    bool ended = false;              // the process has
  };
  // What was written since. Of what stood there before the process was attached to last, nothing is told.
  News read();

  const std::map<int64_t, Site>& sites() const { return sites_; }
  void told();  // no site has changed
  uint64_t findings() const { return findings_; }
  pid_t process() const { return process_; }
  const std::string& path() const { return path_; }

 private:
  void take(const Json& record, News& news);
  void take_traffic(const Json& record);

  pid_t process_;
  std::string path_, part_;
  std::streamoff at_ = 0;
  bool first_ = true;
  Json about_;
  uint64_t findings_ = 0;
  std::map<int64_t, Site> sites_;
  std::map<int64_t, std::pair<uint64_t, std::chrono::steady_clock::time_point>> before_;
};

class LiveLines {
 public:
  LiveLines();
  // The news of all logs; `several`: lines name their process.
  void show(LiveLog& log, const LiveLog::News& news, bool several);
  void draw(const std::vector<const LiveLog*>& logs);
  void clear();

 private:
  bool terminal_;
  int drawn_ = 0;  // lines of the table
};

}  // namespace devtrace::report::command
