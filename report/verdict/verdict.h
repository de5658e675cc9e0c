// Why a finding happened, and which change makes the line run.
#pragma once

#include "report/base/json.h"

namespace devtrace::report::verdict {

// The `cause` object of a finding: {category, confidence, because, fix, file, line, repairs}; the last four are absent
// when no line can be named. Uses everything but `cause` and `fingerprint`. Null only when memory runs out.
Json cause_of(const Json& finding) noexcept;

}  // namespace devtrace::report::verdict
