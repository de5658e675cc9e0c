#include "report/live/live_log.h"

#include <fstream>

#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::live {

LiveLog::News LiveLog::read(Clock::time_point now) {
  News news;
  std::ifstream in(path_, std::ios::binary);
  in.seekg(at_);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // it is not written to its end yet
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    const Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && integer(record, "pid") == process_) take(record, now, news);
  }
  first_ = false;
  return news;
}

void LiveLog::take(const Json& record, Clock::time_point now, News& news) {
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
  if (kind == "traffic") take_traffic(record, now);
  if (kind == "end") news.ended = true;
}

void LiveLog::take_traffic(const Json& record, Clock::time_point now) {
  const auto bytes = static_cast<uint64_t>(integer(record, "bytes").value_or(0));
  const auto [entry, fresh] = sites_.try_emplace(integer(record, "id").value_or(0));
  Site& site = entry->second;
  const double seconds = std::chrono::duration<double>(now - site.last).count();
  if (!fresh && seconds > 0 && bytes > site.bytes)
    site.per_second = static_cast<uint64_t>(static_cast<double>(bytes - site.bytes) / seconds);
  site.from = string(record, "from");
  site.to = string(record, "to");
  site.place = call_site(record, string(about_, "cwd"));
  site.bytes = bytes;
  site.last = now;
  site.changed = true;
}

void LiveLog::told() {
  for (auto& [id, site] : sites_) site.changed = false;
}

}  // namespace devtrace::report::live
