// The record of a call of a mathematics library whose handle is another device's than what it is given, or than the
// current one.
#pragma once

#include <optional>

#include "report/base/json.h"
#include "tracker/findings/misplaced.h"

namespace devtrace::findings {

// Nothing: the policy says that it is somebody's job.
std::optional<report::Json> library_record(const MisplacedLibraryCall& misplaced);

}  // namespace devtrace::findings
