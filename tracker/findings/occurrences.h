// Which findings there were and how often each: what is new, what is only counted. No lock, no log, no option.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracker/findings/severity.h"

namespace devtrace::findings {

// Of all findings, dropped ones included. Any thread may read them at any time.
class Totals {
 public:
  void add(Severity severity);
  void forget();
  uint64_t all() const { return all_.load(std::memory_order_relaxed); }
  uint64_t notes() const { return notes_.load(std::memory_order_relaxed); }
  uint64_t suppressed() const { return suppressed_.load(std::memory_order_relaxed); }
  uint64_t faults() const { return all() - notes() - suppressed(); }

 private:
  std::atomic<uint64_t> all_{0}, notes_{0}, suppressed_{0};
};

class Occurrences {
 public:
  struct Limits {
    int findings = 0;  // that are written; 0: any number
    bool deduplicate = true;
  };
  Occurrences(const Limits& limits, Totals& totals) : limits_(limits), totals_(totals) {}

  // A count that the log does not state yet: it is told as the count doubles, so that a killed process loses little.
  struct Count {
    int id;
    std::string fingerprint;
    uint64_t count;
  };

  // A call that may be a finding, by its key (0: cannot be told from others), before any evidence is gathered.
  enum class Seen { never, counted, excused };
  Seen seen(uint64_t key);
  // It is no finding, nor is what else comes by that call.
  void excuse(uint64_t key);

  // A finding that has its fingerprint.
  struct Finding {
    enum Outcome { added, repeated, dropped } outcome;
    int id;  // in the log; 0 for a dropped one
  };
  Finding add(uint64_t key, const std::string& fingerprint, Severity severity);

  // What has to be told now; at the end all counts that the log does not state.
  std::vector<Count> take_due();
  std::vector<Count> take_unwritten();
  uint64_t count_of(uint64_t id) const;  // 0: no such finding, or none is kept
  uint64_t dropped() const { return dropped_; }

 private:
  struct Known {
    int id;
    std::string fingerprint;
    uint64_t count = 1;
    uint64_t written = 1;  // the count that the log already states
  };
  struct ByCall {
    Known* finding = nullptr;  // null: it came after the limit, or is excused
    Severity severity = Severity::fault;
    bool excused = false;
  };

  bool full() const { return limits_.findings > 0 && written_ >= limits_.findings; }
  bool counted_unseen();
  void count_again(Known& known);
  void remember(uint64_t key, ByCall call);

  Limits limits_;
  Totals& totals_;
  std::unordered_map<std::string, Known> by_name_;  // fingerprint and severity
  std::unordered_map<uint64_t, ByCall> by_call_;
  std::vector<Count> due_;
  int written_ = 0;
  int looked_at_in_vain_ = 0;  // after the limit
  uint64_t dropped_ = 0;
};

}  // namespace devtrace::findings
