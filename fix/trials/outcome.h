// What a run showed: read from the logs, the simulator's summary and the output that it left in its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/base/json.h"

namespace devtrace::fix {

using report::Json;

struct Found {
  Json process, finding;  // records of a log (docs/reference/log.md)

  // Names the fault among those of one program: the fingerprint, which knows no line, and the operands' names.
  std::string identity() const;
};

struct Outcome {
  int code = -1;           // of the program; 128 + the signal's number
  bool timed_out = false;  // it was ended after its time
  double seconds = 0;
  std::vector<Found> findings;               // in order of time; no notes, none that are suppressed
  std::map<std::string, uint64_t> launches;  // device: kernels and library calls
  uint64_t bytes = 0;                        // moved between devices
  std::vector<Json> traffic;                 // the last record of each call site
  std::vector<std::string> not_computed;     // kernels and operators whose values nobody computed
  bool values = true;                        // false: none was computed (--no-values)
  std::string last_line;                     // of what it printed: mostly the exception's message

  uint64_t all_launches() const;
  bool clean() const { return code == 0 && !timed_out && findings.empty(); }
};

// Reads the folder of a run that has ended: *.jsonl, summary/*.json, output. What cannot be read is absent.
Outcome read_outcome(const std::filesystem::path& folder);

}  // namespace devtrace::fix
