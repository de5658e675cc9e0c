#include "cli/live/live_lines.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/format.h"
#include "common/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli::live {
namespace {

constexpr size_t kRows = 10;
constexpr size_t kMostColumns = 150;

size_t columns_of_terminal() {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kMostColumns;
  return std::min<size_t>(window.ws_col, kMostColumns);
}

}  // namespace

std::string row_of(const LiveLog::Site& site, LiveLog::Clock::time_point now) {
  return printable(fmt::format("{} → {}  {:>10}/s  {:>10}  {}", site.from, site.to, report::size(site.rate(now)),
                               report::size(site.bytes), site.place));
}

std::string cut(const std::string& text, size_t columns) {
  size_t at = 0;
  const auto continues = [&] { return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  for (size_t shown = 0; at < text.size() && shown < columns; ++shown)
    for (++at; continues();) ++at;
  return text.substr(0, at);
}

LiveLines::LiveLines() : terminal_(isatty(STDOUT_FILENO)), columns_(columns_of_terminal()) {}

void LiveLines::clear() {
  if (drawn_ > 0) fmt::print("\033[{}F\033[J", drawn_);
  drawn_ = 0;
}

void LiveLines::show(Watched& one, const LiveLog::News& news, bool several) {
  const std::string whose = several ? fmt::format("[{}] ", one.log.process()) : "";
  if (!news.lines.empty()) clear();
  for (const std::string& line : news.lines) fmt::print("{}{}\n", whose, printable(line));
  if (!terminal_) {
    if (one.memory)
      for (const std::string& line : one.changes.since_last(*one.memory)) fmt::print("{}{}\n", whose, line);
    for (const auto& [id, site] : one.log.sites())
      if (site.changed) fmt::print("{}{}\n", whose, cut(row_of(site, LiveLog::Clock::now()), kMostColumns));
  }
  one.log.mark_shown();
  std::fflush(stdout);
}

void LiveLines::take_ranks(std::vector<std::string> rows) {
  if (rows == seen_ && rows != ranks_) {
    ranks_ = rows;
    if (!terminal_)
      for (const std::string& row : ranks_) fmt::print("{}\n", printable(row));
    std::fflush(stdout);
  }
  seen_ = std::move(rows);
}

// A row that the terminal would break were two when it is drawn over.
void LiveLines::print_row(const std::string& row) {
  fmt::print("{}\n", cut(row, columns_));
  ++drawn_;
}

void LiveLines::draw(const std::vector<const Watched*>& all) {
  if (!terminal_) return;
  const auto now = LiveLog::Clock::now();
  std::vector<const LiveLog::Site*> sites;
  for (const Watched* one : all)
    for (const auto& [id, site] : one->log.sites()) sites.push_back(&site);
  std::ranges::stable_sort(sites, [&](const auto* a, const auto* b) { return a->rate(now) > b->rate(now); });
  if (sites.size() > kRows) sites.resize(kRows);
  clear();
  columns_ = columns_of_terminal();
  for (const std::string& row : ranks_) print_row(printable(row));
  for (const Watched* one : all)
    if (one->memory)
      for (const MemoryRow& row : rows_of(*one->memory))
        print_row(all.size() > 1 ? fmt::format("[{}] {}", one->log.process(), row.text) : row.text);
  for (const LiveLog::Site* site : sites) print_row(row_of(*site, now));
  std::fflush(stdout);
}

}  // namespace devtrace::cli::live
