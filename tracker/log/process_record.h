// What is known of the process itself.
#pragma once

#include "report/base/json.h"

namespace devtrace::log {

// The `process` record of docs/log.md. Takes no GIL; asks CUDA only when the process already uses it.
report::Json process_record();

}  // namespace devtrace::log
