#include "finding/json.h"

#include <algorithm>
#include <string_view>

#include "finding/fields.h"
#include "report/record/json_access.h"

namespace devtrace::finding {
namespace {

using report::Json;

// What is said of a kind in kinds.inc.
struct Kind {
  std::string_view name, record, operand;
  Facts facts;
};
const std::vector<Kind>& kinds() {
  static const auto& all = *new std::vector<Kind>{
#define KIND(name, facts, record, operand) {name, record, operand, facts()},
#include "finding/kinds.inc"
  };
  return all;
}
const Kind* kind_of(std::string_view name) {
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& each) { return each.name == name; });
  return found == kinds().end() ? nullptr : &*found;
}

// The fields that are named change places with each other, until they stand in the order in which they are named.
Json in_order(Json record, std::string_view order) {
  std::vector<std::string> named;
  while (!order.empty()) {
    const std::string_view word = order.substr(0, order.find(' '));
    if (record.contains(word)) named.emplace_back(word);
    order.remove_prefix(std::min(order.size(), word.size() + 1));
  }
  if (named.empty()) return record;
  Json out = Json::object();
  auto next = named.begin();
  for (const auto& [key, value] : record.items()) {
    const bool changes = std::find(named.begin(), named.end(), key) != named.end();
    const std::string& field = changes ? *next++ : key;
    out[field] = std::move(record[field]);
  }
  return out;
}

template <typename T>
Json value_of(const T& it);

struct Writer {
  Json& out;

  void operator()(const char* key, const std::string& text, Redaction) const {
    if (!text.empty()) out[key] = text;
  }
  void operator()(const char* key, bool flag, Redaction) const {
    if (flag) out[key] = true;
  }
  void operator()(const char* key, int64_t number, Redaction) const {
    if (number != 0) out[key] = number;
  }
  void operator()(const char* key, Index index, Redaction) const {
    if (index != kNoIndex) out[key] = index;
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& number, Redaction) const {
    if (number) out[key] = *number;
  }
  template <typename T>
  void operator()(const char* key, const List<T>& list, Redaction) const {
    if (!list.is_known()) return;
    Json& array = out[key] = Json::array();
    for (const T& each : list) array.push_back(value_of(each));
  }
  template <typename T>
  requires std::is_class_v<T>
  void operator()(std::string_view key, const T& it, Redaction) const {
    Json value = value_of(it);
    if (key.empty())
      out.update(value);
    else if (!value.empty())
      out[key] = std::move(value);
  }
};

template <typename T>
Json value_of(const T& it) {
  if constexpr (!std::is_class_v<T> || std::is_same_v<T, std::string>) {
    return it;
  } else {
    Json out = Json::object();
    if constexpr (!std::is_same_v<T, Frame>)
      each_field(it, Writer{out});
    else if (it.is_native())
      each_field_of<NativeFrame>(it, Writer{out});
    else
      each_field(it, Writer{out});
    return out;
  }
}

template <typename T>
bool read_value(const Json& value, T& into);

struct Reader {
  const Json& in;

  void operator()(const char* key, std::string& text, Redaction) const { text = report::string(in, key); }
  void operator()(const char* key, bool& flag, Redaction) const { flag = report::flag(in, key); }
  void operator()(const char* key, int64_t& number, Redaction) const { number = report::integer(in, key).value_or(0); }
  void operator()(const char* key, Index& index, Redaction) const {
    const auto number = report::integer(in, key);
    index = number && *number >= 0 ? static_cast<Index>(*number) : kNoIndex;
  }
  void operator()(const char* key, std::optional<int64_t>& number, Redaction) const {
    number = report::integer(in, key);
  }
  void operator()(const char* key, std::optional<std::string>& text, Redaction) const {
    const auto field = in.find(key);
    if (field != in.end() && field->is_string()) text = field->get<std::string>();
  }
  void operator()(const char* key, std::optional<double>& number, Redaction) const { number = report::number(in, key); }
  template <typename T>
  void operator()(const char* key, List<T>& list, Redaction) const {
    const auto field = in.find(key);
    if (field == in.end() || !field->is_array()) return;
    list.known = true;
    list.reserve(field->size());
    for (const Json& each : *field)
      if (!read_value(each, list.emplace_back())) list.pop_back();
  }
  template <typename T>
  requires std::is_class_v<T>
  void operator()(std::string_view key, T& it, Redaction) const {
    read_value(key.empty() ? in : report::object(in, std::string(key).c_str()), it);
  }
};

template <typename T>
bool read_value(const Json& value, T& into) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) into = value.get_ref<const std::string&>();
    return value.is_string();
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_integer()) into = value.get<T>();
    return value.is_number_integer();
  } else if constexpr (std::is_same_v<T, Frame>) {
    // What is none keeps its place: names are told by a frame's number.
    if (value.is_object()) each_field_of<NativeFrame>(into, Reader{value});
    return true;
  } else {
    if (!value.is_object()) return false;
    each_field(into, Reader{value});
    if constexpr (std::is_same_v<T, Operand>) (!into.dtype ? into.bytes : into.extent).reset();
    return true;
  }
}

}  // namespace

Json to_json(const Finding& finding) {
  Json record{{"record", "finding"}};
  each_field(finding, Writer{record});
  for (const auto& [key, value] : finding.unknown) record[key] = Json::parse(value, nullptr, false);
  const Kind* kind = kind_of(finding.kind);
  if (kind == nullptr) return record;
  if (!kind->operand.empty())
    for (Json& operand : record["operands"]) operand = in_order(std::move(operand), kind->operand);
  return in_order(std::move(record), kind->record);
}

Json to_json(const Cause& cause) {
  return value_of(cause);
}

Json to_json(const Operand& operand) {
  return value_of(operand);
}

Finding read(const Json& record) {
  Finding finding;
  if (!record.is_object()) return finding;
  if (const Kind* kind = kind_of(report::string(record, "kind"))) finding.facts = kind->facts;
  each_field(finding, Reader{record});
  std::vector<std::string_view> known{"record"};
  each_field(finding, [&](const char* key, const auto&, Redaction) { known.push_back(key); });
  for (const auto& [key, value] : record.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) finding.unknown.emplace_back(key, value.dump());
  return finding;
}

Stack read_stack(const Json& frames) {
  Stack stack;
  Reader{Json{{"frames", frames}}}("frames", stack, Redaction::inside);
  return stack;
}

Json to_json(const Stack& stack) {
  Json out = Json::array();
  for (const Frame& frame : stack) out.push_back(value_of(frame));
  return out;
}

}  // namespace devtrace::finding
