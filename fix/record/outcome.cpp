#include "fix/record/outcome.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "common/format.h"
#include "finding/json.h"
#include "fix/record/output.h"
#include "report/log/fingerprint.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

using report::Json;

std::string interpreter_of(const Json& process) {
  const Json& command = report::array(process, "command");
  if (command.empty() || !command[0].is_string()) return "python3";
  fs::path path = command[0].get<std::string>();
  if (path.filename().string().find("python") == std::string::npos) return "python3";
  if (path.is_relative() && path.has_parent_path()) path = fs::path(report::string(process, "cwd")) / path;
  std::error_code ignored;
  if (path.has_parent_path() && !fs::exists(path, ignored)) return "python3";
  return path.string();
}

RecordedFinding found(const Json& process, const Json& record) {
  RecordedFinding one{finding::read(record), process.dump(-1, ' ', false, Json::error_handler_t::replace),
                      interpreter_of(process)};
  if (one.finding.fingerprint.empty())
    one.finding.fingerprint = report::fingerprint(report::string(process, "cwd"), one.finding);
  return one;
}

// By the innermost frame of the user's; without one it is no line that an edit has added.
std::optional<CopySite> copy_site(const Json& traffic) {
  const auto stack = finding::read_stack(report::array(traffic, "python"));
  const auto own = finding::innermost_project(stack);
  if (!own) return std::nullopt;
  const auto count = [&](const char* key, int64_t least) {
    return static_cast<uint64_t>(std::max(least, report::integer(traffic, key).value_or(least)));
  };
  return CopySite{stack[*own].file, stack[*own].line, count("bytes", 0), count("copies", 1)};
}

void read_placement(const Json& record, std::map<std::string, std::set<std::string>>& into) {
  for (const Json& entry : report::array(record, "entries"))
    if (report::string(entry, "kind") != "cache")
      into[fmt::format("{} {}", report::string(record, "root"), report::string(entry, "name"))].emplace(
          report::string(entry, "device"));
}

void read_one(const fs::path& log, Outcome& into) {
  Json process;
  std::map<int64_t, Json> traffic;  // the last record of each call site
  const auto take = [&](Json&& record) {
    const auto kind = report::string(record, "record");
    if (kind == "process")
      process.is_null() ? process = std::move(record) : (process.update(record), process);
    else if (kind == "finding" && report::string(record, "severity") != "note" && !record.contains("suppressed"))
      into.findings.push_back(found(process, record));
    else if (kind == "traffic") {
      const int64_t id = report::integer(record, "id").value_or(0);
      traffic[id] = std::move(record);
    } else if (kind == "placement") {
      read_placement(record, into.placement);
    }
  };
  try {
    report::read_log(log, take);
  } catch (const report::LogError&) {
    // A process that was killed before its first line.
  }
  into.processes += !process.is_null();
  for (const auto& [id, record] : traffic) {
    into.bytes += static_cast<uint64_t>(std::max<int64_t>(0, report::integer(record, "bytes").value_or(0)));
    if (auto site = copy_site(record)) into.copy_sites.push_back(*std::move(site));
  }
}

void read_summary(const fs::path& file, Outcome& into) {
  std::ifstream in(file);
  const Json summary = Json::parse(in, nullptr, false);
  if (!summary.is_object()) return;
  for (const auto& [device, count] : report::object(summary, "launches").items())
    if (count.is_number_unsigned()) into.launches[device] += count.get<uint64_t>();
  if (summary.contains("values") && summary["values"] == false) into.values = false;
  const Json& missing = report::object(summary, "not_computed");
  for (const char* kind : {"kernels", "operators"})
    for (const auto& [name, why] : report::object(missing, kind).items()) into.not_computed.push_back(name);
}

}  // namespace

std::string RecordedFinding::identity() const {
  std::string all = finding.fingerprint;
  for (const auto& operand : finding.operands) all += fmt::format(" {}", operand.name);
  return all;
}

std::string RecordedFinding::place() const {
  const std::string& text = finding.operation.empty() ? finding.kind : finding.operation;
  const finding::Frame* const line = finding::user_frame_of(finding);
  if (!line || !line->project) return text;
  const finding::Frame& frame = *line;
  return fmt::format("{} at {}:{}", text, frame.file.substr(frame.file.rfind('/') + 1), frame.line);
}

uint64_t Outcome::all_launches() const {
  uint64_t sum = 0;
  for (const auto& [device, count] : launches) sum += count;
  return sum;
}

std::string Outcome::end() const {
  if (output_not_kept == 0) return last_line;
  return fmt::format("{} ({} MiB in the middle of its output were not kept)", last_line, output_not_kept >> 20);
}

Outcome read_outcome(const fs::path& folder) {
  Outcome outcome;
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == ".jsonl") read_one(file, outcome);
    if (file.extension() == ".json") read_summary(file, outcome);
  }
  const auto time = [](const RecordedFinding& each) { return each.finding.time.value_or(0); };
  std::stable_sort(outcome.findings.begin(), outcome.findings.end(),
                   [&](const RecordedFinding& one, const RecordedFinding& other) { return time(one) < time(other); });
  std::sort(outcome.not_computed.begin(), outcome.not_computed.end());
  outcome.not_computed.erase(std::unique(outcome.not_computed.begin(), outcome.not_computed.end()),
                             outcome.not_computed.end());
  outcome.last_line = last_line(folder / "output");
  outcome.printed = printed(folder / "output");
  outcome.output_not_kept = not_kept(folder / "output");
  return outcome;
}

bool found_dead_end(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream log(entry.path(), std::ios::binary);
    for (std::string line; std::getline(log, line);) {
      if (line.find("collective-") == line.npos) continue;
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_object() || report::string(record, "record") != "finding") continue;
      const auto kind = report::string(record, "kind");
      if ((kind == "collective-stalled" || kind == "collective-mismatch") &&
          report::string(record, "severity") != "note" && !record.contains("suppressed"))
        return true;
    }
  }
  return false;
}

}  // namespace devtrace::fix
