// How much a finding weighs.
#pragma once

#include "report/base/json.h"

namespace devtrace::findings {

// A fault fails a run. A note and what the user's suppressions cover is counted and told in the log alone.
enum class Severity { fault, note, suppressed };

// A suppressed one gets the field that says by what. Its fingerprint stands in the record.
Severity classify(report::Json& record);

}  // namespace devtrace::findings
