// Why a finding happened, and which change makes the line run.
#pragma once

#include "finding/finding.h"

namespace devtrace::report::verdict {

// The category, confidence and reason; what to change only where a line can be named. Uses everything but `cause` and
// `fingerprint`. Without a category only when memory runs out.
finding::Cause cause_of(const finding::Finding& finding) noexcept;

}  // namespace devtrace::report::verdict
