// What tells one fault from another, and is the same in every run.
#pragma once

#include <string>
#include <string_view>

#include "finding/finding.h"

namespace devtrace::report {

// 16 hexadecimal digits that name the fault and not its occurrence; fingerprint.cpp says which bytes are hashed. `cwd`:
// the process's working directory.
std::string fingerprint(std::string_view cwd, const finding::Finding& finding) noexcept;

}  // namespace devtrace::report
