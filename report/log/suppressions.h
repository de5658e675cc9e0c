// Findings that somebody has looked at and accepts for a while: a text file of one entry a line
// (docs/guide/suppressions.md). The same rules hold in the process and offline.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"
#include "report/record/json.h"

namespace devtrace::report {

// An empty pattern says nothing; all others must match (common/glob.h says how).
struct Suppression {
  std::string kind, operation, function, file, kernel, module, fingerprint;
  std::string reason;
  std::string expires;  // YYYY-MM-DD, UTC, the last day on which it holds; empty: for good
  int line = 0;         // of the file

  // `function` and `file` speak of one and the same frame, Python's or native. `module` speaks of a shared library in
  // the native stack, or of an operand's module by class or path.
  bool covers(const finding::Finding& finding) const;
  bool expired(std::string_view today) const { return !expires.empty() && expires < today; }
};

struct Suppressions {
  std::string path;
  std::vector<Suppression> entries;
  std::vector<std::string> complaints;  // "file:3: …": lines that were not understood, and are left out

  // Index of the first entry that covers the finding and holds on that day (YYYY-MM-DD).
  std::optional<size_t> covering(const finding::Finding& finding, std::string_view today) const;
};

// `path` only names the file in complaints.
Suppressions parse_suppressions(std::string_view text, std::string path);

// Nothing when the file cannot be read; errno says why.
std::optional<Suppressions> read_suppressions(const std::string& path);

// The entry that covers this finding and little else, ready to be pasted, without '\n'. It expires 90 days after the
// finding.
std::string suppression_entry(const Json& process, const Json& finding);

// "2026-11-21" of seconds since the epoch; empty for times that no calendar has.
std::string date_of(double seconds);

}  // namespace devtrace::report
