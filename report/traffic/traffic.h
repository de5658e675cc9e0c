// What moved between devices, as the reports show it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/record/json_access.h"
#include "report/traffic/interconnect.h"

namespace devtrace::report {

// The log's `traffic` records, taken one by one: of those of one `id` the last holds.
class Traffic {
 public:
  void take(const Json& record);
  // The log goes on with another program of the same process, which counts its ids anew.
  void begin_anew() { by_id_.clear(); }
  bool empty() const { return records_.empty(); }

  struct Row {
    std::string from, to;
    uint64_t bytes = 0;
    uint64_t copies = 0;
    Link link;
    uint64_t working_bytes = 0;  // of bytes what crosses while the program works, and the link's time for that
    double working_seconds = 0;
    const Json* record = nullptr;  // of a call site; null for the sum of a pair
  };
  // What took longest first. What the same line moved the same way is one call site; what was measured and what is
  // estimated are rows of their own.
  std::vector<Row> pairs(const Json& process) const;
  std::vector<Row> call_sites(const Json& process) const;

  struct Sum {
    uint64_t bytes = 0, copies = 0;
    double seconds = 0;
  };
  static Sum sum(const std::vector<Row>& rows);

 private:
  std::map<int64_t, size_t> by_id_;
  std::vector<Json> records_;
};

// How long a `traffic` record's bytes took: as the device measured it, else as the devices' names suggest. Where only
// some of the copies were measured the others are taken to be as fast.
Link link_of(const Json& process, const Json& traffic);

// Whether it crosses while the program works, again for each token or step. Not what was copied before the first call
// of a module, nor, outside of such calls, what a checkpoint is read from or written to.
bool while_working(const Json& traffic);

// The link's name, and the rate if it was measured: "NVLink, measured: 212 GB/s".
std::string link_words(const Link& link, uint64_t bytes);

// What that is for one of the tokens or steps whose number the process record has: "; a token 16 KiB, at least 0.3 µs",
// "; a token nothing".
std::string for_one_token(const Json& process, const Traffic::Row& row);

// Where the bytes were moved: "load (main.py:30)", a native function, or "other call sites".
std::string call_site(const Json& traffic, std::string_view cwd);

// "12 ms", "3.4 s".
std::string duration(double seconds);

// "1 copy", "12 copies"; "1.5 MiB".
std::string copies(uint64_t count);
std::string size(uint64_t count);

constexpr size_t kShownCallSites = 10;
constexpr std::string_view kTrafficEstimate =
    "Times that are not said to be measured are estimates: the bytes at the full rate of the link that the devices' "
    "names suggest, so it takes no less.";

// A short table, ending in '\n'; empty when nothing moved. In Markdown: markdown.h.
std::string traffic_text(const Json& process, const Traffic& traffic);

}  // namespace devtrace::report
