#include "report/command/live_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "report/base/escaping.h"
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::command {
namespace {

constexpr size_t kRows = 10;
constexpr size_t kColumns = 150;

std::string row_of(const LiveLog::Site& site) {
  return printable(fmt::format("{} → {}  {:>10}/s  {:>10}  {}", site.from, site.to, size(site.per_second),
                               size(site.bytes), site.place))
      .substr(0, kColumns);
}

}  // namespace

LiveLog::News LiveLog::read() {
  News news;
  std::ifstream in(path_, std::ios::binary);
  in.seekg(at_);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // it is not written to its end yet
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    const Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && integer(record, "pid") == process_) take(record, news);
  }
  first_ = false;
  return news;
}

void LiveLog::take(const Json& record, News& news) {
  const std::string_view kind = string(record, "record");
  if (kind == "process") about_ = record;
  if (first_ && (kind == "process" || kind == "attached")) {
    news.lines.clear();
    findings_ = 0;
  }
  if (kind == "finding") {
    ++findings_;
    news.lines.push_back(summary(about_, record));
    if (const Json& cause = object(record, "cause"); !string(cause, "because").empty())
      news.lines.push_back(fmt::format("    {}", string(cause, "because")));
  }
  if (kind == "count")
    news.lines.push_back(
        fmt::format("finding {}: {} times", integer(record, "id").value_or(0), integer(record, "count").value_or(0)));
  if (kind == "traffic") take_traffic(record);
  if (kind == "end") news.ended = true;
}

void LiveLog::take_traffic(const Json& record) {
  const auto now = std::chrono::steady_clock::now();
  const int64_t id = integer(record, "id").value_or(0);
  const auto bytes = static_cast<uint64_t>(integer(record, "bytes").value_or(0));
  Site& site = sites_[id];
  site.from = string(record, "from");
  site.to = string(record, "to");
  site.place = call_site(record, string(about_, "cwd"));
  site.bytes = bytes;
  const auto before = before_.find(id);
  if (before != before_.end() && bytes > before->second.first) {
    const double seconds = std::chrono::duration<double>(now - before->second.second).count();
    if (seconds > 0)
      site.per_second = static_cast<uint64_t>(static_cast<double>(bytes - before->second.first) / seconds);
  }
  before_[id] = {bytes, now};
  site.changed = true;
}

void LiveLog::told() {
  for (auto& [id, site] : sites_) site.changed = false;
}

LiveLines::LiveLines() : terminal_(isatty(STDOUT_FILENO)) {}

void LiveLines::clear() {
  if (drawn_ > 0) fmt::print("\033[{}F\033[J", drawn_);
  drawn_ = 0;
}

void LiveLines::show(LiveLog& log, const LiveLog::News& news, bool several) {
  const std::string whose = several ? fmt::format("[{}] ", log.process()) : "";
  if (!news.lines.empty()) clear();
  for (const std::string& line : news.lines) fmt::print("{}{}\n", whose, printable(line));
  if (!terminal_)
    for (const auto& [id, site] : log.sites())
      if (site.changed) fmt::print("{}{}\n", whose, row_of(site));
  log.told();
  std::fflush(stdout);
}

void LiveLines::draw(const std::vector<const LiveLog*>& logs) {
  if (!terminal_) return;
  std::vector<const LiveLog::Site*> sites;
  for (const LiveLog* log : logs)
    for (const auto& [id, site] : log->sites()) sites.push_back(&site);
  std::ranges::stable_sort(sites, [](const auto* a, const auto* b) { return a->per_second > b->per_second; });
  clear();
  for (const LiveLog::Site* site : sites) {
    if (static_cast<size_t>(drawn_) == kRows) break;
    fmt::print("{}\n", row_of(*site));
    ++drawn_;
  }
  std::fflush(stdout);
}

}  // namespace devtrace::report::command
