// What a search has shown: of the findings, and what it leaves open.
#pragma once

#include <string>
#include <vector>

#include "fix/trials/search.h"

namespace devtrace::fix {

struct Moved {
  uint64_t bytes = 0, a_step = 0;
};

// What the lines that the patch adds have moved: in all, and each time they ran.
Moved moved_by(const Candidate& edits, const Outcome& outcome);

struct Conclusion {
  // Those along the way, each with the edit that was chosen for it and `cause.verified`, then those that are left;
  // numbered anew.
  std::vector<finding::Finding> findings;
  std::vector<std::string> open;  // a sentence each
};

// `patch`: the file with all edits.
Conclusion conclusion(const SearchResult& result, const std::string& patch);

}  // namespace devtrace::fix
