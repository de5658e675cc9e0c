// Records as the log has them: JSON whose fields keep their order.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

// In json.cpp, once.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace devtrace::report {

using Json = nlohmann::ordered_json;

// One line of the log: the record as JSON, with bytes that are not UTF-8 replaced by U+FFFD, ending in '\n'.
std::string json_line(const Json& record) noexcept;

}  // namespace devtrace::report
