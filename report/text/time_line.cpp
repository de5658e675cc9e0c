#include "report/text/time_line.h"

#include <algorithm>

#include "common/format.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {

std::vector<Moment> time_line(const Json& finding, std::string_view cwd) {
  std::vector<Moment> moments;
  const auto add = [&](const Json& event, int64_t thread, std::string what) {
    const auto time = number(event, "time");
    if (!time) return;
    const Json& frame = user_frame_of(event);
    moments.push_back({*time, thread, std::move(what), frame.empty() ? "" : place(frame, cwd)});
  };
  const int64_t thread = integer(finding, "thread").value_or(0);
  for (const Json& operand : operands_and_sources(finding)) {
    const Json& created = object(operand, "created");
    const Json& moved = object(operand, "moved");
    add(created, integer(created, "thread").value_or(0),
        fmt::format("{} {} on {}", name_of(operand), made_by(operand), string(created, "device")));
    add(moved, integer(moved, "thread").value_or(0),
        fmt::format("{} moved {} → {}", name_of(operand), string(moved, "from"), string(moved, "to")));
  }
  for (const Json& change : array(finding, "device_changes")) {
    const auto device = string(change, "device");
    add(change, thread, fmt::format("{} made the current device", device.empty() ? "a context" : device));
  }
  add(finding, thread, headline(finding));
  std::stable_sort(moments.begin(), moments.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return moments;
}

}  // namespace devtrace::report
