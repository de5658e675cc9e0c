// The logs of many processes, made one: what several processes met is one fault with the occurrences of each.
//
// Memory grows with what is different (faults, processes, call sites), never with the length of the logs; beyond the
// limits below the rest is counted and said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/check/placement.h"
#include "report/check/repository.h"
#include "report/log/suppressions.h"
#include "report/placement/memory_use.h"
#include "report/record/finding_line.h"
#include "report/record/json_access.h"

namespace devtrace::report::check {

constexpr size_t kMostFaults = 100'000;
constexpr size_t kMostWholeFaults = 20'000;  // of later ones it is kept what stands at the ends of their lines
constexpr size_t kMostProcesses = 100'000;
constexpr size_t kMostSites = 20'000;
constexpr size_t kMostPlacements = 200'000;
constexpr size_t kMostProblems = 1000;
constexpr size_t kMostRecordBytes = 128u << 20;  // of faults' whole records; later ones keep their summary alone

struct Process {
  Json record;  // its `process` record
  std::string log;
  int64_t pid = 0;
  bool ended = false;
  uint64_t dropped = 0;  // findings that max_findings kept out of the log
  MemoryUse memory;      // of its devices

  std::string_view host() const { return string(record, "host"); }
  // "rank 3 (gpu-07, pid 4711)", "pid 4711"
  std::string name() const;
};

struct Occurrences {
  size_t process = 0;  // index
  double time = 0;     // of its first occurrence, by its host's clock; 0: not known
  uint64_t count = 0;  // occurrences
};

struct SuppressedBy {
  std::string file, reason;
  int64_t line = 0;
};

struct Fault {
  std::string fingerprint;
  bool note = false;
  std::optional<SuppressedBy> suppressed;  // in the process, by every process
  std::optional<size_t> suppressed_by;     // an entry of the collection's suppressions
  std::string kind, operation, headline, summary;
  std::string file, function;  // of the innermost frame of the repository, and its line
  int64_t line = 0;
  bool in_repository = false;
  std::vector<Occurrences> by_process;  // one a process, in the order of the logs
  std::string record;                   // the first process's finding as one line of JSON; empty when there was no room
  double last_seen = 0;

  uint64_t occurrences() const;
  // The record, parsed again; without one what is known of it in the same form.
  Json finding() const;
};

// Copies between devices by call site, over all processes. The key reads "cuda:0 to cuda:1 at step (train.py)". Devices
// are numbered by appearance in the pair, and the site has no line number, so that it stays the same in the next
// version.
struct Site {
  uint64_t bytes = 0, copies = 0;
  // Whose they are, the first that came.
  std::set<int64_t> ranks{};
  std::set<std::string> hosts{};
};
constexpr size_t kMostOwners = 64;

class Collection {
 public:
  // `progress`: is told the bytes read so far, now and then.
  using Progress = std::function<void(const std::string& log, uint64_t bytes)>;
  struct Today {
    const Suppressions& suppressions;
    std::string date;  // YYYY-MM-DD
  };
  // `rewrite`: makes of each record what is kept of it.
  using Rewrite = std::function<Json(Json&&)>;
  Collection(Repository& repository, Today today, Progress progress = {}, Rewrite rewrite = {})
      : repository_(repository),
        today_(std::move(today)),
        progress_(std::move(progress)),
        rewrite_(std::move(rewrite)) {}

  // Reads one log. What keeps it from being judged whole goes to problems().
  void read(const std::filesystem::path& log);

  std::vector<Fault>& faults() { return faults_; }
  const std::vector<Fault>& faults() const { return faults_; }
  const std::vector<Process>& processes() const { return processes_; }
  const std::map<std::string, Site>& traffic() const { return traffic_; }
  // Empty when no process has said where its models lie: that is then not known.
  const Places& placement() const { return placement_; }
  Repository& repository() const { return repository_; }
  uint64_t bytes() const { return bytes_; }
  size_t logs() const { return logs_; }

  // One line each, beginning with the file: something was not read, so nobody can say that it held nothing new.
  const std::vector<std::string>& problems() const { return problems_; }
  void problem(std::string what);
  // Logs of which nothing, or not all, could be read.
  size_t unreadable() const { return unreadable_; }
  // Processes without an `end` record.
  std::vector<const Process*> unfinished() const;

 private:
  struct Reading;
  void refuse(Reading& reading, int64_t pid);
  void begin(Reading& reading, Json&& record);
  void finding(Reading& reading, Json&& record);
  bool take_unparsed(Reading& reading, const FindingLine& line);
  // One more of a known fault.
  void met(Reading& reading, size_t process, size_t fault, double time, std::optional<int64_t> id, uint64_t count);
  bool too_many_faults(const Reading& reading);
  void count(Reading& reading, const Json& record);
  void traffic(Reading& reading, const Json& record);
  void place(Reading& reading, size_t process);
  void locate(Fault& fault, const Json& process, const Json& record);

  Repository& repository_;
  Today today_;
  Progress progress_;
  Rewrite rewrite_;
  std::vector<Process> processes_;
  std::vector<Fault> faults_;
  std::unordered_map<std::string, size_t> by_name_;  // fingerprint, and whether it is a note
  std::map<std::string, Site> traffic_;
  Places placement_;
  size_t placements_ = 0;
  std::vector<std::string> problems_;
  uint64_t bytes_ = 0;
  size_t logs_ = 0, record_bytes_ = 0, unreadable_ = 0;
  bool too_many_faults_ = false, too_many_processes_ = false, too_many_placements_ = false;
};

}  // namespace devtrace::report::check
