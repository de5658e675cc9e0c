// One process's log, read as it grows: findings, and what each call site moves between devices a second.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::cli::live {

class LiveLog {
 public:
  using Clock = std::chrono::steady_clock;

  LiveLog(pid_t process, std::string path) : process_(process), path_(std::move(path)) {}

  struct Site {
    std::string from, to, place;
    uint64_t bytes = 0, per_second = 0;
    Clock::time_point last;
    bool changed = false;

    // Sites are written when they have moved something: one that is silent has stopped.
    uint64_t rate(Clock::time_point now) const { return now - last > std::chrono::seconds(3) ? 0 : per_second; }
  };
  struct News {
    std::vector<std::string> lines;  // of findings
    bool ended = false;              // the process has
  };
  // What was written since. Of what stood there before the process was attached to last, nothing is told.
  News read(Clock::time_point now = Clock::now());

  const std::map<int64_t, Site>& sites() const { return sites_; }
  void mark_shown();  // no site has changed
  uint64_t findings() const { return findings_; }
  pid_t process() const { return process_; }
  const std::string& path() const { return path_; }

 private:
  void take(const report::Json& record, Clock::time_point now, News& news);
  void take_traffic(const report::Json& record, Clock::time_point now);

  pid_t process_;
  std::string path_;
  std::streamoff at_ = 0;
  bool first_ = true;
  report::Json about_;
  uint64_t findings_ = 0;
  std::map<int64_t, Site> sites_;
};

}  // namespace devtrace::cli::live
