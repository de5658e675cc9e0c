// Everything that is known about a launch that was given another device's memory, as the log's `finding` record without
// id, fingerprint, cause and count.
#pragma once

#include <optional>

#include "report/base/json.h"
#include "tracker/findings/misplaced.h"

namespace devtrace::findings {

// Nothing when the policy excuses it, or when a launch that CUDA refused for its stream has a finding for its memory.
// Takes no GIL: a launch may come while a lock is held for which the GIL's owner waits. Holds no lock.
std::optional<report::Json> launch_record(const MisplacedLaunch& launch);

}  // namespace devtrace::findings
