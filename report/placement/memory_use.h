// How much of each device's memory a run needed, of what that consisted, and where it was not enough.
#pragma once

#include <string>
#include <vector>

#include "report/placement/placement.h"
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

// A line for each device, and for each out of memory; empty when nothing is known. Of a peak the weights and caches are
// told as they were placed last, where they are not more than it.
std::string memory_text(const Json& process, const MemoryUse& memory, const Placement& placement);

}  // namespace devtrace::report
