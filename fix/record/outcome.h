// What a run showed: read from the logs, the simulator's summary and the output that it left in its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "finding/finding.h"

namespace devtrace::fix {

struct RecordedFinding {
  finding::Finding finding;
  std::string process;      // its process's record, as the log has it
  std::string interpreter;  // the Python that ran that process, else python3

  // Names the fault among those of one program: the fingerprint, which knows no line, and the operands' names.
  std::string identity() const;
  // "aten::add at model.py:41": the operation, and the program's own line.
  std::string place() const;
};

// A line of the user's that copies between devices, and what it has moved.
struct CopySite {
  std::string file;
  int64_t line = 0;
  uint64_t bytes = 0, copies = 1;
};

struct Outcome {
  int code = -1;           // of the program; 128 + the signal's number
  bool timed_out = false;  // it was ended after its time
  bool fresh = true;       // of a process that started by itself, no fork
  double seconds = 0;
  int processes = 0;                         // that used CUDA, or had findings
  std::vector<RecordedFinding> findings;     // in order of time; no notes, none that are suppressed
  std::map<std::string, uint64_t> launches;  // device: kernels and library calls
  uint64_t bytes = 0;                        // moved between devices
  std::vector<CopySite> copy_sites;
  std::vector<std::string> not_computed;  // kernels and operators whose values nobody computed
  bool values = true;                     // false: none was computed (--no-values)
  std::string last_line;                  // of what it printed: mostly the exception's message
  size_t printed = 0;                     // hash of all that it printed, as far as it was kept
  // Where parameters and buffers of the models of a class were seen: "Net head.weight": "cuda:0". Which of several
  // models is looked at first is another one in each run.
  std::map<std::string, std::set<std::string>> placement;
  uint64_t output_not_kept = 0;  // bytes in the middle of a long one

  uint64_t all_launches() const;
  // For people: the last line, and what was not kept of the output.
  std::string end() const;
  bool clean() const { return code == 0 && !timed_out && findings.empty(); }
};

// Reads the folder of a run that has ended: *.jsonl, summary/*.json, output. What cannot be read is absent.
Outcome read_outcome(const std::filesystem::path& folder);

// Of a run that may still be under way: has it met a finding behind which ranks wait for each other and do not end?
bool found_dead_end(const std::filesystem::path& folder);

}  // namespace devtrace::fix
