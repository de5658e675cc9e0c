#include "report/record/json_access.h"

namespace devtrace::report {
namespace {

const Json* field_of(const Json& record, const char* key) {
  if (!record.is_object()) return nullptr;
  const auto field = record.find(key);
  return field == record.end() ? nullptr : &*field;
}

}  // namespace

// The empty ones are never destroyed: a finding may be made while the process runs its exit handlers.
const Json& object(const Json& record, const char* key) {
  static const Json& none = *new Json(Json::object());
  const Json* field = field_of(record, key);
  return field && field->is_object() ? *field : none;
}

const Json& array(const Json& record, const char* key) {
  static const Json& none = *new Json(Json::array());
  const Json* field = field_of(record, key);
  return field && field->is_array() ? *field : none;
}

std::string_view string(const Json& record, const char* key) {
  const Json* field = field_of(record, key);
  return field && field->is_string() ? std::string_view(field->get_ref<const std::string&>()) : std::string_view();
}

std::optional<int64_t> integer(const Json& record, const char* key) {
  const Json* field = field_of(record, key);
  if (!field) return std::nullopt;
  if (field->is_number_unsigned()) {
    const auto value = field->get<uint64_t>();
    if (value > uint64_t{INT64_MAX}) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (field->is_number_integer()) return field->get<int64_t>();
  return std::nullopt;
}

std::optional<double> number(const Json& record, const char* key) {
  const Json* field = field_of(record, key);
  if (!field || !field->is_number()) return std::nullopt;
  return field->get<double>();
}

bool flag(const Json& record, const char* key) {
  const Json* field = field_of(record, key);
  return field && field->is_boolean() && field->get<bool>();
}

}  // namespace devtrace::report
