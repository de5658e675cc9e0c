// What happened before a finding, in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report {

struct Moment {
  double time = 0;  // seconds since the epoch
  int64_t thread = 0;
  std::string what;   // "input_ids moved cpu → cuda:0"
  std::string place;  // "embed (main.py:42)"; empty when it is not known
};

// The operands' creations and moves, who chose the thread's device, and the finding itself.
std::vector<Moment> time_line(const Json& finding, std::string_view cwd);

}  // namespace devtrace::report
