#include "report/check/baseline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/format.h"
#include "common/text.h"
#include "report/log/suppressions.h"
#include "report/record/log_reader.h"

namespace devtrace::report::check {
namespace {

constexpr int64_t kBaselineVersion = 1;
constexpr size_t kLongestBaseline = 256u << 20;
constexpr const char* kMark = "devtrace_baseline";

std::string text_of(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw BaselineError(fmt::format("{}: is a folder", file));
  std::ifstream in;
  std::ostringstream text;
  try {
    in = open_file(file);
  } catch (const LogError& error) {
    throw BaselineError(error.what());
  }
  std::string chunk(1 << 16, '\0');
  size_t read = 0;
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    text.write(chunk.data(), in.gcount());
    if ((read += static_cast<size_t>(in.gcount())) > kLongestBaseline)
      throw BaselineError(fmt::format("{}: not a baseline: longer than {} MiB", file, kLongestBaseline >> 20));
  }
  return text.str();
}

size_t line_at(const std::string& text, size_t byte) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + std::min(byte, text.size()), '\n'));
}

// The parser takes any depth; what reads and writes the values afterwards calls itself.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string) {
      if (text[at] == '\\')
        ++at;
      else if (text[at] == '"')
        in_string = false;
      continue;
    }
    if (text[at] == '"') in_string = true;
    if ((text[at] == '{' || text[at] == '[') && ++depth > 100) return true;
    if (text[at] == '}' || text[at] == ']') --depth;
  }
  return false;
}

std::set<std::string> listed_devices(std::string_view text) {
  std::set<std::string> devices;
  while (!text.empty()) {
    const size_t end = std::min(text.find(", "), text.size());
    devices.emplace(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return devices;
}

Json entry_for(const Fault& fault) {
  Json entry;
  entry["fingerprint"] = fault.fingerprint;
  entry["kind"] = printable(fault.kind);
  entry["operation"] = printable(fault.operation);
  entry["file"] = printable(fault.file);
  entry["function"] = printable(fault.function);
  entry["summary"] = printable(fault.summary);
  entry["date"] = date_of(fault.last_seen);
  entry["note"] = "";
  return entry;
}

}  // namespace

Baseline read_baseline(const std::string& file) {
  const std::string text = text_of(file);
  if (too_deep(text)) throw BaselineError(fmt::format("{}: not a baseline: it nests more than 100 deep", file));
  Json whole;
  try {
    whole = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const bool conflict = text.find("<<<<<<<") != text.npos;
    throw BaselineError(fmt::format("{}:{}: not JSON{}", file, line_at(text, error.byte ? error.byte - 1 : 0),
                                    conflict ? ": it holds the marks of a merge conflict" : ""));
  } catch (const std::exception& error) {
    throw BaselineError(fmt::format("{}: {}", file, error.what()));
  }
  const auto version = integer(whole, kMark);
  if (!version) throw BaselineError(fmt::format("{}:1: not a baseline: it has no field \"{}\"", file, kMark));
  if (*version != kBaselineVersion)
    throw BaselineError(fmt::format("{}:1: a baseline of version {}, and this devtrace reads version {}", file,
                                    *version, kBaselineVersion));
  Baseline baseline;
  size_t number = 0;
  for (const Json& entry : array(whole, "findings")) {
    ++number;
    const std::string fingerprint(string(entry, "fingerprint"));
    if (fingerprint.empty())
      throw BaselineError(fmt::format("{}: entry {} of \"findings\" has no fingerprint", file, number));
    baseline.findings.emplace(fingerprint, entry);
  }
  baseline.has_traffic = whole.contains("traffic");
  for (const Json& entry : array(whole, "traffic")) {
    const auto bytes = integer(entry, "bytes"), copies = integer(entry, "copies");
    if (!bytes || *bytes < 0) throw BaselineError(fmt::format("{}: an entry of \"traffic\" has no bytes", file));
    baseline.traffic[std::string(string(entry, "site"))] = {
        static_cast<uint64_t>(*bytes), static_cast<uint64_t>(std::max<int64_t>(0, copies.value_or(0)))};
  }
  for (const auto& [root, names] : object(whole, "placement").items()) {
    if (!names.is_object()) continue;
    for (const auto& [name, devices] : names.items())
      if (devices.is_string()) baseline.placement[root][name] = listed_devices(devices.get_ref<const std::string&>());
  }
  for (const auto& [key, value] : whole.items())
    if (key != kMark && key != "findings" && key != "traffic" && key != "placement") baseline.others[key] = value;
  return baseline;
}

std::string updated(const Baseline& before, const Collection& now, const std::set<std::string>& suppressed,
                    bool keep_gone) {
  std::map<std::string, Json> entries;
  if (keep_gone) entries = before.findings;
  for (const Fault& fault : now.faults()) {
    const auto known = before.findings.find(fault.fingerprint);
    const bool is_new = known == before.findings.end();
    if (fault.note || (is_new && suppressed.contains(fault.fingerprint))) continue;
    entries[fault.fingerprint] = is_new ? entry_for(fault) : known->second;
  }
  Json whole;
  whole[kMark] = kBaselineVersion;
  whole.update(before.others);
  whole["findings"] = Json::array();
  for (auto& [fingerprint, entry] : entries) whole["findings"].push_back(std::move(entry));
  whole["traffic"] = Json::array();
  for (const auto& [site, sum] : now.traffic())
    whole["traffic"].push_back({{"site", printable(site)}, {"bytes", sum.bytes}, {"copies", sum.copies}});
  whole["placement"] = Json::object();
  // What nobody knows tonight is not gone.
  Places placement = keep_gone || now.placement().empty() ? before.placement : Places();
  for (const auto& [root, names] : renumbered(before.placement, now.placement()))
    for (const auto& [name, devices] : names) placement[root][name] = devices;
  for (const auto& [root, names] : placement)
    for (const auto& [name, devices] : names)
      whole["placement"][root][name] = fmt::format("{}", fmt::join(devices, ", "));
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace devtrace::report::check
