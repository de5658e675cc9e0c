// What is known already: a JSON file that lies in the repository, is read in diffs and merged by people.
//
//   {
//     "devtrace_baseline": 1,
//     "findings": [                      sorted by fingerprint
//       {
//         "fingerprint": "…", "kind": "…", "operation": "…", "file": "…", "function": "…",
//         "summary": "…",                as it was when it was taken up
//         "date": "2026-11-21",          of the occurrence that was taken up
//         "note": ""                     for people; this, the date and fields of other names survive updates
//       }
//     ],
//     "traffic": [{"site": "cuda:0 to cuda:1 at step (train.py)", "bytes": …, "copies": …}],
//     "placement": {"BertModel": {"embeddings.word_embeddings.weight": "cuda:0"}}   several: "cpu, cuda:0"
//   }
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "report/check/collection.h"
#include "report/record/json_access.h"

namespace devtrace::report::check {

// what(): one line, beginning with the file and, where it is known, the line.
struct BaselineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Baseline {
  std::map<std::string, Json> findings;  // by fingerprint
  std::map<std::string, Site> traffic;
  Places placement;              // empty: not known
  Json others = Json::object();  // fields of the file that this devtrace does not know
  bool has_traffic = false;
};

// Throws BaselineError.
Baseline read_baseline(const std::string& file);

// The file's text after these logs: faults that it lacks are taken up, entries that were not seen are left out unless
// `keep_gone`, all others stay as they are. Notes and suppressed faults are not taken up.
std::string updated(const Baseline& before, const Collection& now, const std::set<std::string>& suppressed,
                    bool keep_gone);

}  // namespace devtrace::report::check
