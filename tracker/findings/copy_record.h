// Everything that is known about a copy whose ends do not lie where its caller says, as the log's `finding` record
// without id, fingerprint, cause and count.
#pragma once

#include "report/base/json.h"
#include "tracker/findings/misplaced.h"

namespace devtrace::findings {

// Takes no GIL: a copy may come while a lock is held for which the GIL's owner waits. Holds no lock.
report::Json copy_record(const MisplacedCopy& copy);

}  // namespace devtrace::findings
