// Who changed a fault's line last: `git blame`.
#pragma once

#include <optional>

#include "report/check/outputs.h"

namespace devtrace::cli {

// Nothing where that is not known: the file is not in a repository, git is not there, or the line is not as the program
// had it.
std::optional<report::check::LastChange> last_change(const report::check::Fault& fault,
                                                     const report::check::Repository& repository);

}  // namespace devtrace::cli
