// How much a finding weighs.
#pragma once

#include "finding/finding.h"

namespace devtrace::findings {

// A fault fails a run. A note and what the user's suppressions cover is counted and told in the log alone.
enum class Severity { fault, note, suppressed };

// The finding, with its fingerprint, gets its severity; a suppressed one is told by what.
Severity classify(finding::Finding& finding);

}  // namespace devtrace::findings
