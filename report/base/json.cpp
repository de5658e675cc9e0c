#include "report/base/json.h"

namespace devtrace::report {

std::string json_line(const Json& record) noexcept try {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
} catch (...) {
  return {};
}

}  // namespace devtrace::report
