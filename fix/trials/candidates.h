// Edits that may repair a finding: asked of fix/edits, which the interpreter of the user's program runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fix/record/candidate.h"

namespace devtrace::fix {

// The likeliest first. `so_far`: the edits to which they come; `folder`: where patches of files in it start;
// `interpreter`: Python's command. Throws std::runtime_error with what the interpreter said when it cannot be asked.
std::vector<Candidate> candidates(const std::filesystem::path& edits, const std::string& interpreter,
                                  const finding::Finding& finding, const Candidate& so_far,
                                  const std::filesystem::path& folder, const std::filesystem::path& scratch);

// The same edits with one hunk left out, once for each hunk; `code` is what it would have added.
std::vector<Candidate> without_a_hunk(const std::filesystem::path& edits, const std::string& interpreter,
                                      const Candidate& whole, const std::filesystem::path& folder,
                                      const std::filesystem::path& scratch);

}  // namespace devtrace::fix
