// What a search has shown: of the findings, and what it leaves open.
#pragma once

#include <string>
#include <vector>

#include "fix/trials/search.h"

namespace devtrace::fix {

struct Conclusion {
  // Those along the way, each with the edit that was chosen for it and `cause.verified`, then those that are left;
  // numbered anew.
  std::vector<finding::Finding> findings;
  std::vector<std::string> open;  // a sentence each
};

// `patch`: the file with all edits.
Conclusion conclusion(const SearchResult& result, const std::string& patch);

}  // namespace devtrace::fix
