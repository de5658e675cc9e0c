#include "report/record/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace devtrace::report {

std::string json_line(const Json& record) noexcept try {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
} catch (...) {
  return {};
}

}  // namespace devtrace::report
