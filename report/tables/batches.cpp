#include "report/tables/batches.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>

#include "common/format.h"
#include "report/log/fnv1a.h"

namespace devtrace::report::tables {
namespace {

namespace fs = std::filesystem;

// As Hive writes what stands in a folder's name.
std::string hive_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c == '.' && !out.empty()))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

using Sizes = std::map<std::string, uint64_t>;  // by a log's id

// What the manifests of that date say: a redacted log's machine has another name after it was started anew.
void read_manifests(const fs::path& folder, const std::string& date, Sizes& into) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder / "_logs" / ("date=" + date), error), end;
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".txt") continue;
    std::ifstream in(entry->path());
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string id;
      uint64_t bytes = 0;
      if (words >> id >> bytes) into[id] = std::max(into[id], bytes);
    }
  }
}

}  // namespace

Plan plan(std::vector<LogIdentity> logs, const fs::path& folder) {
  Plan out;
  // Of copies of one log the longest.
  std::sort(logs.begin(), logs.end(), [](const LogIdentity& a, const LogIdentity& b) {
    return std::tie(a.date, a.host, a.id, b.bytes, a.path) < std::tie(b.date, b.host, b.id, a.bytes, b.path);
  });
  Sizes known;
  std::string date;
  for (LogIdentity& log : logs) {
    if (log.date != date) {
      known.clear();
      read_manifests(folder, log.date, known);
      date = log.date;
    }
    const auto [at, is_new] = known.try_emplace(log.id, log.bytes);
    if (!is_new && at->second >= log.bytes) {
      ++out.known;
      continue;
    }
    if (!is_new) log.outgrown = at->second;
    at->second = log.bytes;
    std::string partition = fmt::format("date={}/host={}", log.date, hive_escaped(log.host));
    if (out.batches.empty() || out.batches.back().partition != partition)
      out.batches.push_back({std::move(partition), {}, {}});
    out.batches.back().logs.push_back(std::move(log));
  }
  for (Batch& batch : out.batches) batch.name = Fnv1a().add(manifest(batch, false)).digits();
  return out;
}

std::string manifest(const Batch& batch, bool with_paths) {
  std::string text;
  for (const LogIdentity& log : batch.logs) {
    std::string path = with_paths ? ' ' + log.path.string() : "";
    std::replace(path.begin(), path.end(), '\n', ' ');
    text += fmt::format("{} {}{}\n", log.id, log.bytes, path);
  }
  return text;
}

}  // namespace devtrace::report::tables
