#include "fix/trials/outcome.h"

#include <algorithm>
#include <fstream>

#include "finding/json.h"
#include "report/base/format.h"
#include "report/base/json_access.h"
#include "report/log/fingerprint.h"
#include "report/log/log_reader.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

void read_one(const fs::path& log, Outcome& into) {
  Json process;
  std::map<int64_t, Json> traffic;
  const auto take = [&](Json&& record) {
    const auto kind = report::string(record, "record");
    if (kind == "process")
      process.is_null() ? process = std::move(record) : (process.update(record), process);
    else if (kind == "finding" && report::string(record, "severity") != "note" && !record.contains("suppressed"))
      into.findings.push_back({process, std::move(record)});
    else if (kind == "traffic") {
      const int64_t id = report::integer(record, "id").value_or(0);
      traffic[id] = std::move(record);
    }
  };
  try {
    report::read_log(log, take);
  } catch (const report::LogError&) {
    // A process that was killed before its first line.
  }
  for (auto& [id, record] : traffic) {
    into.bytes += static_cast<uint64_t>(std::max<int64_t>(0, report::integer(record, "bytes").value_or(0)));
    into.traffic.push_back(std::move(record));
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

std::string last_line(const fs::path& output) {
  std::ifstream in(output);
  std::string found;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t\r") != line.npos && line.find("devtrace: ") == line.npos) found = line;
  return found.substr(0, 300);
}

}  // namespace

std::string Found::identity() const {
  std::string all(report::string(finding, "fingerprint"));
  if (all.empty()) all = report::fingerprint(report::string(process, "cwd"), finding::read(finding));
  for (const Json& operand : report::array(finding, "operands"))
    all += fmt::format(" {}", report::string(operand, "name"));
  return all;
}

uint64_t Outcome::all_launches() const {
  uint64_t sum = 0;
  for (const auto& [device, count] : launches) sum += count;
  return sum;
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
  const auto time = [](const Found& each) { return report::number(each.finding, "time").value_or(0); };
  std::stable_sort(outcome.findings.begin(), outcome.findings.end(),
                   [&](const Found& one, const Found& other) { return time(one) < time(other); });
  std::sort(outcome.not_computed.begin(), outcome.not_computed.end());
  outcome.not_computed.erase(std::unique(outcome.not_computed.begin(), outcome.not_computed.end()),
                             outcome.not_computed.end());
  outcome.last_line = last_line(folder / "output");
  return outcome;
}

}  // namespace devtrace::fix
