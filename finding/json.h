// Findings as records of a log, and back. Records that anybody may have written: a field of another type than
// docs/reference/log.md says counts as absent.
#pragma once

#include "finding/finding.h"
#include "report/record/json.h"

namespace devtrace::finding {

report::Json to_json(const Finding& finding);
report::Json to_json(const Cause& cause);
report::Json to_json(const Operand& operand);

Finding read(const report::Json& record);

// Frames of a record of any kind.
Stack read_stack(const report::Json& frames);
report::Json to_json(const Stack& stack);

}  // namespace devtrace::finding
