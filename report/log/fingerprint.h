// What tells one fault from another, and is the same in every run.
#pragma once

#include <string>

#include "report/base/json.h"

namespace devtrace::report {

// 16 hexadecimal digits that name the fault and not its occurrence; fingerprint.cpp says which bytes are hashed. Uses
// `cwd` of the process record, and `kind`, `operation`, `argument`, `devices`, `python` of the finding.
std::string fingerprint(const Json& process, const Json& finding) noexcept;

}  // namespace devtrace::report
