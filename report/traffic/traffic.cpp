#include "report/traffic/traffic.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {
namespace {

uint64_t count_of(const Json& record, const char* key) {
  const auto value = integer(record, key);
  return value && *value > 0 ? static_cast<uint64_t>(*value) : 0;
}

Traffic::Row row_of(const Json& process, const Json& record) {
  Traffic::Row row{std::string(string(record, "from")),
                   std::string(string(record, "to")),
                   count_of(record, "bytes"),
                   count_of(record, "copies"),
                   link_of(process, record),
                   0,
                   0,
                   &record};
  if (while_working(record)) row.working_bytes = row.bytes, row.working_seconds = row.link.seconds;
  return row;
}

void add(Traffic::Row& sum, const Traffic::Row& row) {
  sum.bytes += row.bytes;
  sum.copies += row.copies;
  sum.link.seconds += row.link.seconds;
  sum.working_bytes += row.working_bytes;
  sum.working_seconds += row.working_seconds;
}

// Part of a file's path, and a function of it; empty: any.
constexpr std::pair<std::string_view, std::string_view> kCheckpoints[] = {
    {"torch/serialization.py", ""}, {"torch/distributed/checkpoint/", ""},
    {"/safetensors/", ""},          {"nn/modules/module.py", "state_dict"},
    {"", "from_pretrained"},        {"", "save_pretrained"}};

void longest_first(std::vector<Traffic::Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.link.seconds > b.link.seconds; });
}

}  // namespace

Link link_of(const Json& process, const Json& traffic) {
  const uint64_t bytes = count_of(traffic, "bytes");
  Link link = link_for(process, string(traffic, "from"), string(traffic, "to"), flag(traffic, "staged"), bytes);
  const Json& timed = object(traffic, "timed");
  const uint64_t timed_bytes = count_of(timed, "bytes"), nanoseconds = count_of(timed, "nanoseconds");
  if (timed_bytes > 0 && nanoseconds > 0) {
    link.seconds =
        static_cast<double>(nanoseconds) * 1e-9 * static_cast<double>(bytes) / static_cast<double>(timed_bytes);
    link.measured = true;
  }
  return link;
}

bool while_working(const Json& traffic) {
  if (flag(traffic, "before_forward")) return false;
  bool checkpoint = false;
  for (const Json& frame : array(traffic, "python")) {
    const std::string_view file = string(frame, "file"), function = string(frame, "function");
    if (file.ends_with("nn/modules/module.py") && function.ends_with("_call_impl")) return true;
    for (const auto& [path, name] : kCheckpoints)
      checkpoint |= file.find(path) != file.npos && (name.empty() || function.ends_with(name));
  }
  return !checkpoint;
}

std::string link_words(const Link& link, uint64_t bytes) {
  if (!link.measured || link.seconds <= 0) return link.name;
  const double rate = static_cast<double>(bytes) / link.seconds * 1e-9;
  return fmt::format("{}{}measured: {:.{}f} GB/s", link.name, link.name.empty() ? "" : ", ", rate, rate < 10 ? 1 : 0);
}

std::string for_one_token(const Json& process, const Traffic::Row& row) {
  const uint64_t tokens = count_of(process, "tokens");
  if (tokens == 0) return {};
  if (row.working_bytes == 0) return "; a token nothing";
  return fmt::format("; a token {}, at least {}", size(row.working_bytes / tokens),
                     duration(row.working_seconds / static_cast<double>(tokens)));
}

void Traffic::take(const Json& record) {
  if (!record.is_object()) return;
  const auto id = integer(record, "id");
  if (id) {
    const auto [known, fresh] = by_id_.try_emplace(*id, records_.size());
    if (!fresh) {
      records_[known->second] = record;
      return;
    }
  }
  records_.push_back(record);
}

std::vector<Traffic::Row> Traffic::call_sites(const Json& process) const {
  std::map<std::tuple<std::string, std::string, std::string, bool, std::string>, size_t> known;
  std::vector<Row> rows;
  for (const Json& record : records_) {
    Row row = row_of(process, record);
    // Several stacks of a library may end in the same line of the user's.
    const auto [entry, fresh] = known.try_emplace(
        {row.from, row.to, row.link.name, row.link.measured, call_site(record, string(process, "cwd"))}, rows.size());
    if (fresh) {
      rows.push_back(std::move(row));
      continue;
    }
    add(rows[entry->second], row);
  }
  longest_first(rows);
  return rows;
}

std::vector<Traffic::Row> Traffic::pairs(const Json& process) const {
  std::map<std::tuple<std::string, std::string, std::string, bool>, Row> sums;
  for (const Row& row : call_sites(process)) {
    Row& pair = sums[{row.from, row.to, row.link.name, row.link.measured}];
    pair.from = row.from;
    pair.to = row.to;
    add(pair, row);
    pair.link.name = row.link.name;
    pair.link.measured = row.link.measured;
  }
  std::vector<Row> rows;
  for (const auto& [key, row] : sums) rows.push_back(row);
  longest_first(rows);
  return rows;
}

std::string call_site(const Json& traffic, std::string_view cwd) {
  if (flag(traffic, "other")) return "other call sites";
  if (const Json& frame = user_frame_of(traffic); !frame.empty()) return place(frame, cwd);
  return "an unknown place";
}

std::string duration(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.{}f} µs", seconds * 1e6, seconds < 1e-5 ? 1 : 0);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 1 : 0);
  return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
}

Traffic::Sum Traffic::sum(const std::vector<Row>& rows) {
  Sum all;
  for (const Row& row : rows) {
    all.bytes += row.bytes;
    all.copies += row.copies;
    all.seconds += row.link.seconds;
  }
  return all;
}

std::string copies(uint64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "copy" : "copies");
}

std::string size(uint64_t count) {
  return bytes(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)));
}

std::string traffic_text(const Json& process, const Traffic& traffic) {
  if (traffic.empty()) return {};
  const auto sites = traffic.call_sites(process);
  const Traffic::Sum all = Traffic::sum(sites);
  std::string out = fmt::format("Traffic between devices: {} in {}, at least {}\n", size(all.bytes), copies(all.copies),
                                duration(all.seconds));
  const auto line = [&](const Traffic::Row& row, std::string_view rest) {
    out += fmt::format("  {:<16}  {:>8}  {:>12}  {:>8}  {}\n", shortened(printable(row.from + " to " + row.to), 40),
                       size(row.bytes), copies(row.copies), duration(row.link.seconds), rest);
  };
  for (const auto& row : traffic.pairs(process))
    line(row, link_words(row.link, row.bytes) + for_one_token(process, row));
  out += fmt::format("  by call site{}:\n", sites.size() > kShownCallSites ? ", the longest" : "");
  for (size_t index = 0; index < std::min(sites.size(), kShownCallSites); ++index)
    line(sites[index], shortened(printable(call_site(*sites[index].record, string(process, "cwd"))), 100));
  if (sites.size() > kShownCallSites) out += fmt::format("  and {} more call sites\n", sites.size() - kShownCallSites);
  return out + fmt::format("  {}\n", kTrafficEstimate);
}

}  // namespace devtrace::report
