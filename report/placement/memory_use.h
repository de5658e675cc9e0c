// How much of each device's memory a run needed, of what that consisted, and where it was not enough.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report {

// The log's `memory` and `out_of_memory` records: of a device the last holds.
class MemoryUse {
 public:
  void take(const Json& record);
  void begin_anew() { devices_.clear(), ends_.clear(); }
  bool empty() const { return devices_.empty() && ends_.empty(); }

  const std::vector<Json>& devices() const { return devices_; }
  const std::vector<Json>& ends() const { return ends_; }  // of memory

 private:
  std::vector<Json> devices_, ends_;
};

// Of what a device's peak consisted, the largest first, without what is nothing: "weights", bytes.
std::vector<std::pair<const char*, uint64_t>> parts_of_peak(const Json& memory);

// What the reports say of one record: "37 GiB of 40 GiB: weights 34 GiB, …, at step (train.py:12)"; of an
// `out_of_memory` what was missing, where, and in which module. Never empty.
std::string memory_words(const Json& process, const Json& record);

// Bytes of a device; 0: the log does not know them.
uint64_t capacity_of(const Json& process, std::string_view device);

// A line for each device, and for each out of memory, or a table; empty when nothing is known.
std::string memory_text(const Json& process, const MemoryUse& memory);
std::string memory_markdown(const Json& process, const MemoryUse& memory);

}  // namespace devtrace::report
