// A finding as this devtrace would write it now: logs of other programs may lack what it derives.
#pragma once

#include "report/record/json.h"

namespace devtrace::report {

// With a fingerprint and a cause. `process`: the record of the process that it was found in.
Json completed(const Json& process, Json finding);

}  // namespace devtrace::report
