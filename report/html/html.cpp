// The HTML report: report.html, its styles and its scripts made one page (assets.S), and records as inert script
// elements after it. The page needs no closing tags and no server; its script reads whatever records are there when the
// browser has come to the end of the file.

#include "report/html/html.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "common/text.h"
#include "report/log/redact.h"
#include "report/log/suppressions.h"
#include "report/phrasing/phrasing.h"
#include "report/phrasing/verification.h"
#include "report/placement/memory_use.h"
#include "report/placement/placement.h"
#include "report/text/markdown.h"
#include "report/text/text.h"
#include "report/traffic/traffic.h"

#define DEVTRACE_ASSET(name)                                                     \
  extern "C" __attribute__((visibility("hidden"))) const char devtrace_##name[]; \
  extern "C" __attribute__((visibility("hidden"))) const uint64_t devtrace_##name##_size
DEVTRACE_ASSET(page);
DEVTRACE_ASSET(style);
DEVTRACE_ASSET(script);
#undef DEVTRACE_ASSET

namespace devtrace::report {
namespace {

// `row`: what the list of findings shows of it, as JSON; the page then reads the rest when it is looked at.
std::string element(std::string_view json, std::string_view row = {}) {
  while (!json.empty() && (json.back() == '\n' || json.back() == '\r')) json.remove_suffix(1);
  const std::string data = row.empty() ? "" : " data-row=\"" + html_escaped(row) + '"';
  return "<script type=\"application/json\" class=\"record\"" + data + ">" + script_escaped(json) + "</script>\n";
}

std::string row_of(const Json& process, const Json& finding) {
  const Json& frame = user_frame_of(finding);
  const std::string_view cwd = string(process, "cwd");
  Json row = Json::object();
  for (const char* key : {"id", "kind", "severity", "fingerprint", "time", "thread", "count", "status"}) {
    if (finding.contains(key)) row[key] = finding[key];
  }
  row["title"] = operation_of(finding);
  if (!string(frame, "file").empty()) {
    row["where"] = location(frame, cwd);
    row["function"] = string(frame, "function");
  } else if (!frame.empty()) {
    row["where"] = place(frame, cwd);
  }
  row["category"] = string(object(finding, "cause"), "category");
  row["summary"] = summary(process, finding);
  std::string line = json_line(row);
  line.pop_back();
  return line;
}

// Each frame says how its place and its function are written, and which one its reader knows. The function only where
// that is not its name.
void describe_frames(Json& value, std::string_view cwd) {
  if (value.is_array())
    for (Json& each : value) describe_frames(each, cwd);
  if (!value.is_object()) return;
  if (!string(value, "file").empty() || !string(value, "module").empty()) {
    value["shown"]["at"] = location(value, cwd);
    if (std::string name = function_name(value); name != string(value, "function"))
      value["shown"]["function"] = std::move(name);
  }
  for (const auto& [key, choose] : {std::pair("python", &user_frame), std::pair("native", &native_user_frame)}) {
    const Json& frames = array(value, key);
    const Json& known = choose(frames);
    for (size_t at = 0; at < frames.size(); ++at)
      if (&frames[at] == &known) value[key][at]["shown"]["known"] = true;
  }
  for (Json& each : value) describe_frames(each, cwd);
}

Json words_of(const Json& operand) {
  return {{"name", name_of(operand)},
          {"role", role_of(operand)},
          {"extent", extent_of(operand)},
          {"made", made_by(operand)}};
}

// report.html holds {{title}}, {{style}} and {{script}}, once each.
std::string filled_page(std::string_view title) {
  struct Part {
    std::string_view mark, text;
  };
  const std::array<Part, 3> parts = {{{"{{title}}", title},
                                      {"{{style}}", {devtrace_style, devtrace_style_size}},
                                      {"{{script}}", {devtrace_script, devtrace_script_size}}}};
  std::string_view page(devtrace_page, devtrace_page_size);
  std::string out;
  out.reserve(page.size() + title.size() + devtrace_style_size + devtrace_script_size);
  for (const Part& part : parts) {
    const size_t at = page.find(part.mark);
    if (at == page.npos) continue;
    out.append(page.substr(0, at)).append(part.text);
    page.remove_prefix(at + part.mark.size());
  }
  return out.append(page);
}

std::string title_of(const Json& process) {
  std::string program;
  for (const Json& word : array(process, "command")) {
    if (!word.is_string()) continue;
    if (!program.empty()) program += ' ';
    program += word.get_ref<const std::string&>();
    if (program.size() > 200) break;
  }
  return html_escaped(printable("devtrace: " + (program.empty() ? "report" : shortened(valid_utf8(program), 80))));
}

}  // namespace

std::string html_head(const Json& process) noexcept try {
  return filled_page(title_of(process)) + element(json_line(process));
} catch (...) {
  return {};
}

std::string html_record(std::string_view json_line) noexcept try {
  return element(valid_utf8(json_line));
} catch (...) {
  return {};
}

// What it costs and where, worked out here so that page, text and Markdown say the same.
std::string html_traffic(const Json& process, const Json& traffic) noexcept try {
  Json record = traffic;
  const auto bytes = integer(traffic, "bytes");
  const Link link = link_of(process, traffic);
  record["shown"] = {{"link", link_words(link, bytes && *bytes > 0 ? static_cast<uint64_t>(*bytes) : 0)},
                     {"name", link.name},
                     {"working", while_working(traffic)},
                     {"measured", link.measured},
                     {"seconds", link.seconds},
                     {"place", call_site(traffic, string(process, "cwd"))}};
  describe_frames(record, string(process, "cwd"));
  return element(json_line(record));
} catch (...) {
  return {};
}

std::string html_memory(const Json& process, const Json& memory) noexcept try {
  Json record = memory;
  Json parts = Json::array();
  for (const auto& [name, bytes] : parts_of_peak(memory)) parts.push_back({{"name", name}, {"bytes", bytes}});
  record["shown"] = {{"words", memory_words(process, memory)},
                     {"capacity", capacity_of(process, string(memory, "device"))},
                     {"parts", std::move(parts)}};
  describe_frames(record, string(process, "cwd"));
  return element(json_line(record));
} catch (...) {
  return {};
}

// The groups are worked out here so that page, text and Markdown say the same. `of`: each entry's group.
std::string html_placement(const Json& placement) noexcept try {
  Json record = placement;
  Placement one;
  one.take(placement);
  const auto roots = one.roots();
  Json groups = Json::array(), of = Json::array();
  if (!roots.empty()) {
    std::vector<size_t> group_of(roots.front().tensors.size());
    for (const PlacementRow& row : rows_of(roots.front()))
      for (const PlacementRow::Group& group : row.groups) {
        for (const size_t index : group.members) group_of[index] = groups.size();
        groups.push_back({{"device", row.device},
                          {"name", group_words(group.name)},
                          {"tensors", group.tensors},
                          {"bytes", group.bytes}});
      }
    of = group_of;
    // As they were read: `of` counts no others.
    record["entries"] = Json::array();
    for (const Placement::Tensor& tensor : roots.front().tensors)
      record["entries"].push_back({{"name", tensor.name}, {"kind", tensor.kind}, {"bytes", tensor.bytes}});
  }
  record["shown"] = {{"groups", std::move(groups)}, {"of", std::move(of)}};
  return element(json_line(record));
} catch (...) {
  return {};
}

// The record carries its words with it, so that page, text and Markdown say the same.
std::string html_finding(const Json& process, const Json& finding) noexcept try {
  Json record = finding;
  const Json& access = object(object(finding, "launch"), "access");
  record["shown"] = {{"headline", headline(finding)},
                     {"access", access.empty() ? "" : access_in_words(access)},
                     {"summary", summary(process, finding)},
                     {"without_lines", without_lines(native_user_frame(array(finding, "native")))},
                     {"suppression", suppression_entry(process, finding)},
                     {"markdown", markdown(process, finding)}};
  if (!array(record, "operands").empty()) {
    record["operands"] = Json::array();
    for (const Json* operand : odd_first(finding)) record["operands"].push_back(*operand);
    for (Json& operand : record["operands"]) {
      Json words = words_of(operand);
      if (const std::optional<Json> source = source_of(operand))
        operand["computed_from"][0]["shown"] = words_of(*source);
      operand["shown"] = std::move(words);
    }
  }
  describe_frames(record, string(process, "cwd"));
  if (const auto [label, words] = verification_of(finding); !words.empty())
    record["shown"]["verification"] = {{"label", label}, {"words", words}};
  // Once more for those who may not tell whose program it was.
  if (!flag(process, "redacted")) {
    Redactor redactor;
    const Json clean = redactor.process(process);
    record["shown"]["redacted"] = markdown(clean, redactor.record(finding));
  }
  return element(json_line(record), row_of(process, finding)) + "<noscript><pre>" +
         html_escaped(text(process, finding, false, {})) + "</pre></noscript>\n";
} catch (...) {
  return {};
}

}  // namespace devtrace::report
