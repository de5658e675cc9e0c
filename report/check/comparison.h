// What the logs hold, held against what is known: the judgement of `devtrace check`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/check/baseline.h"
#include "report/check/collection.h"
#include "report/check/placement.h"
#include "report/log/suppressions.h"

namespace devtrace::report::check {

enum class Status { added, known, suppressed, note };
// "new", "known", "suppressed", "note".
std::string_view word(Status status);

struct ClassifiedFault {
  const Fault* fault;
  Status status;
  std::string reason;  // of a suppressed one: "ticket 123 (accepted.txt:4)"; of a known one its note
};

struct Rules {
  std::optional<double> traffic_tolerance;  // 0.2: a fifth more bytes at a call site are a failure
  bool fail_on_placement = false;
  bool allow_unfinished = false;  // a process without an `end` record is told and no more
  size_t expected_processes = 0;  // fewer: could not judge
};

// Less growth than this at a call site is not worth a night.
constexpr uint64_t kTrafficFloor = 1u << 20;

struct Comparison {
  std::vector<ClassifiedFault> faults;  // new ones first, then by file, line and fingerprint
  std::vector<Json> gone;               // entries of the baseline that were not seen

  struct MoreTraffic {
    std::string site;
    Site before, now;
    bool fails = false;
  };
  std::vector<MoreTraffic> traffic;  // call sites that moved more, or less, than a hundredth of what they did
  PlacementChanges placement;

  std::vector<const Suppression*> unused, expired;
  std::vector<std::string> problems;  // why not all could be judged
  std::vector<std::string> remarks;   // what a reader should know besides

  size_t count(Status status) const;
  size_t failing_traffic() const;
  bool placement_fails = false;

  // 1 for something new, else 2 where not all could be judged, else 0.
  int exit_code() const;
  // "2 new, 1 known, 0 gone".
  std::string tally() const;
};

// The same judgement without what tells whose program it was. `logs`: the same ones, read by a redactor.
// Throws std::runtime_error where they are not the same any more.
Comparison redacted(const Comparison& judged, const Collection& logs);

Comparison compare(const Collection& logs, const Baseline& baseline, const Suppressions& suppressions,
                   const std::string& today, const Rules& rules);

}  // namespace devtrace::report::check
