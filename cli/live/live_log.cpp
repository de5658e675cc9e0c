#include "cli/live/live_log.h"

#include <fstream>

#include "common/format.h"
#include "report/phrasing/phrasing.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli::live {

LiveLog::News LiveLog::read(Clock::time_point now) {
  News news;
  std::ifstream in(path_, std::ios::binary);
  in.seekg(at_);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // it is not written to its end yet
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    const report::Json record = report::Json::parse(line, nullptr, false);
    if (record.is_object() && report::integer(record, "pid") == process_) take(record, now, news);
  }
  first_ = false;
  return news;
}

void LiveLog::take(const report::Json& record, Clock::time_point now, News& news) {
  const std::string_view kind = report::string(record, "record");
  if (kind == "process") about_ = record;
  if (first_ && (kind == "process" || kind == "attached")) {
    news.lines.clear();
    findings_ = 0;
  }
  if (kind == "finding") {
    ++findings_;
    news.lines.push_back(report::summary(about_, record));
    if (const report::Json& cause = report::object(record, "cause"); !report::string(cause, "because").empty())
      news.lines.push_back(fmt::format("    {}", report::string(cause, "because")));
  }
  if (kind == "count")
    news.lines.push_back(fmt::format("finding {}: {} times", report::integer(record, "id").value_or(0),
                                     report::integer(record, "count").value_or(0)));
  if (kind == "traffic") take_traffic(record, now);
  if (kind == "end") news.ended = true;
}

void LiveLog::take_traffic(const report::Json& record, Clock::time_point now) {
  const auto bytes = static_cast<uint64_t>(report::integer(record, "bytes").value_or(0));
  const auto [entry, fresh] = sites_.try_emplace(report::integer(record, "id").value_or(0));
  Site& site = entry->second;
  const double seconds = std::chrono::duration<double>(now - site.last).count();
  if (!fresh && seconds > 0 && bytes > site.bytes)
    site.per_second = static_cast<uint64_t>(static_cast<double>(bytes - site.bytes) / seconds);
  site.from = report::string(record, "from");
  site.to = report::string(record, "to");
  site.place = report::call_site(record, report::string(about_, "cwd"));
  site.bytes = bytes;
  site.last = now;
  site.changed = true;
}

void LiveLog::mark_shown() {
  for (auto& [id, site] : sites_) site.changed = false;
}

}  // namespace devtrace::cli::live
