#include "report/tables/row.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "common/text.h"
#include "report/phrasing/phrasing.h"
#include "report/record/json_access.h"

namespace devtrace::report::tables {
namespace {

bool append_string(std::string& out, std::string_view raw) {
  if (raw.size() < 2 || raw.front() != '"') return false;
  bool plain = true;
  for (const char c : raw.substr(1, raw.size() - 2))
    plain &= c != '\\' && c != '"' && static_cast<unsigned char>(c) >= ' ';
  if (plain) return out += raw, true;
  const Json text = Json::parse(raw, nullptr, false);
  if (!text.is_string()) return false;
  out += text.dump(-1, ' ', false, Json::error_handler_t::replace);
  return true;
}

template <typename Number>
bool read_number(std::string_view raw, Number& number) {
  const auto [end, fault] = std::from_chars(raw.data(), raw.data() + raw.size(), number);
  return fault == std::errc() && end == raw.data() + raw.size();
}

bool append_int(std::string& out, std::string_view raw) {
  // A variable of the environment is a string.
  if (raw.size() > 2 && raw.front() == '"') raw = raw.substr(1, raw.size() - 2);
  int64_t number = 0;
  if (!read_number(raw, number)) return false;
  out += std::to_string(number);
  return true;
}

// Microseconds since the epoch.
bool append_time(std::string& out, std::string_view raw) {
  constexpr double kMicro = 1e6, kMost = 9e12;  // some 280,000 years
  double seconds = 0;
  if (!read_number(raw, seconds) || !(std::abs(seconds) < kMost)) return false;
  out += std::to_string(std::llround(seconds * kMicro));
  return true;
}

bool append_number(std::string& out, std::string_view raw) {
  double number = 0;
  if (!read_number(raw, number) || !std::isfinite(number)) return false;
  out += Json(number).dump();
  return true;
}

// Of a list's element: the fields that its type has.
bool append_struct(std::string& out, std::string_view raw) {
  RawFields fields;
  if (!fields.cut(raw)) return false;
  Row row;
  for (const Column& column : columns_of(Table::operands)) row.add(column.name, fields[column.name], column.type);
  out += '{' + row.fields() + '}';
  return true;
}

bool append_list(std::string& out, std::string_view raw, std::string_view type) {
  if (raw.empty() || raw.front() != '[') return false;
  const size_t begin = out.size();
  out += '[';
  for (const std::string_view element : raw_elements(raw)) {
    if (out.size() > begin + 1) out += ',';
    if (!append_value(out, element, type)) return out.resize(begin), false;
  }
  out += ']';
  return true;
}

}  // namespace

bool append_value(std::string& out, std::string_view raw, std::string_view type) {
  if (type.front() == '[') return append_list(out, raw, type.substr(1, type.size() - 2));
  if (type == "string") return append_string(out, raw);
  if (type == "int") return append_int(out, raw);
  if (type == "time") return append_time(out, raw);
  if (type == "number") return append_number(out, raw);
  if (type == "operands") return append_struct(out, raw);
  if (raw != "true" && raw != "false") return false;
  out += raw;
  return true;
}

void Row::add(std::string_view name, std::string_view raw, std::string_view type) {
  if (raw.empty()) return;
  const size_t before = fields_.size();
  if (!fields_.empty()) fields_ += ',';
  fields_ += '"';
  fields_ += name;
  fields_ += "\":";
  if (!append_value(fields_, raw, type)) fields_.resize(before);
}

void Row::add_made(std::string_view fields) {
  if (!fields_.empty() && !fields.empty()) fields_ += ',';
  fields_ += fields;
}

std::string_view raw_at(const RawFields& record, std::string_view path) {
  const size_t dot = path.find('.');
  const std::string_view raw = record[path.substr(0, dot)];
  if (dot == path.npos || raw.empty()) return raw;
  RawFields inner;
  return inner.cut(raw) ? raw_at(inner, path.substr(dot + 1)) : std::string_view();
}

RawFields frame_of(const RawFields& record, std::string& made) {
  RawFields frame, first;
  const auto frames = raw_elements(record["python"]);
  for (const std::string_view each : frames) {
    if (!frame.cut(each)) continue;
    if (frame["project"] == "true") return frame;
    if (each.data() == frames.front().data()) first = frame;
  }
  if (!frames.empty()) return first;
  // Which of a native stack's a reader knows takes more knowledge than one field.
  Json native = Json::parse(record["native"], nullptr, false);
  if (!native.is_array()) return {};
  made = native_user_frame(native).dump(-1, ' ', false, Json::error_handler_t::replace);
  frame.cut(made);
  return frame;
}

}  // namespace devtrace::report::tables
