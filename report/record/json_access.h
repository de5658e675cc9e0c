// Reading records that anybody may have written: a field of another type than docs/reference/log.md says counts as
// absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/record/json.h"

namespace devtrace::report {

// The field as an object or array; an empty one (static, never null) when absent or of another type.
const Json& object(const Json& record, const char* key);
const Json& array(const Json& record, const char* key);

// The field as text; empty when absent or not a string.
std::string_view string(const Json& record, const char* key);

// The field as a whole number; nothing when absent, not a number or outside of int64.
std::optional<int64_t> integer(const Json& record, const char* key);
std::optional<double> number(const Json& record, const char* key);

// True only for a field that is `true`.
bool flag(const Json& record, const char* key);

}  // namespace devtrace::report
