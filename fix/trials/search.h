// From a program's first finding to edits with which it runs: run, edit, run again, finding by finding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fix/trials/ranking.h"
#include "fix/trials/trial.h"

namespace devtrace::fix {

struct Limits {
  double budget = 0;      // seconds in all; 0: by how long the program takes
  int jobs = 1;           // runs at a time
  int tries = 0;          // candidates for one finding at most
  bool by_cores = false;  // so many jobs are as many as there are cores, of programs of one process
};

// A finding, and what was tried for it.
struct Round {
  RecordedFinding finding;
  std::vector<Tried> tried;
  std::optional<size_t> chosen;  // index into `tried`
};

struct SearchResult {
  Outcome before;               // the program as it is
  std::vector<Round> rounds;    // along the way to the best end
  std::vector<Round> given_up;  // findings behind which no way went on
  Outcome after;                // with the chosen edits; `before` when there are none
  Candidate edits;              // the last chosen: its texts and patch hold all of them
  bool solved = false;          // the program ran to its end
  // … and printed what the program prints where operands of several devices are computed as if they lay on one. Nothing
  // where that run has not come to a good end.
  std::optional<bool> prints_as_reference;
  bool interrupted = false, out_of_time = false;
  std::string trouble;  // why no candidates could be made; empty: they could
  int runs = 0;
  double budget = 0;  // seconds that it might take
};

// What is going on, for a terminal. `done` of `all` candidates of the finding number `number` (from 1).
struct Progress {
  const Round* round = nullptr;
  size_t number = 0, done = 0, all = 0;
  double seconds = 0;  // since the search began
  const Tried* last = nullptr;
};

// `interrupted` is asked often. The finding's files are edited by fix/edits, found in `edits`; `folder`: where the
// patch starts. Throws std::runtime_error when the program cannot be started.
SearchResult search(Runs& runs, const std::filesystem::path& edits, const std::filesystem::path& folder,
                    const Limits& limits, const std::function<bool()>& interrupted,
                    const std::function<void(const Progress&)>& progress);

}  // namespace devtrace::fix
