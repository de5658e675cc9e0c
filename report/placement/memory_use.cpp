#include "report/placement/memory_use.h"

#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::report {
namespace {

constexpr size_t kMostDevices = 64, kMostEnds = 16;

uint64_t count_of(const Json& record, const char* key) {
  return static_cast<uint64_t>(std::max<int64_t>(0, integer(record, key).value_or(0)));
}

struct Kinds {
  uint64_t weights = 0, caches = 0;
};
Kinds kinds_on(std::string_view device, const Placement& placement) {
  Kinds kinds;
  for (const Placement::Root& root : placement.roots())
    for (const Placement::Tensor& tensor : root.tensors)
      if (tensor.device == device && !tensor.again)
        (tensor.kind == "cache" ? kinds.caches : kinds.weights) += tensor.bytes;
  return kinds;
}

std::string at_words(const Json& process, const Json& record) {
  return array(record, "python").empty()
             ? ""
             : ", at " + shortened(printable(call_site(record, string(process, "cwd"))), 100);
}

std::string device_line(const Json& process, const Json& record, const Placement& placement) {
  const uint64_t peak = count_of(record, "peak"), reserved = count_of(record, "reserved");
  const Kinds kinds = kinds_on(string(record, "device"), placement);
  std::string of;
  if (kinds.weights + kinds.caches > 0 && kinds.weights + kinds.caches <= peak) {
    of = fmt::format(": weights {}", size(kinds.weights));
    if (kinds.caches > 0) of += fmt::format(", caches {}", size(kinds.caches));
    of += fmt::format(", other tensors {}", size(peak - kinds.weights - kinds.caches));
  }
  return fmt::format("  {:<8}  {:>8}{}; PyTorch held {} more{}\n", printable(shortened(string(record, "device"), 20)),
                     size(peak), of, size(reserved - std::min(reserved, peak)), at_words(process, record));
}

std::string end_line(const Json& process, const Json& record) {
  std::string out = fmt::format("  {:<8}  out of memory: {} were asked for",
                                printable(shortened(string(record, "device"), 20)), size(count_of(record, "asked")));
  if (record.contains("missing"))
    out += fmt::format(", {} were free, {} were missing", size(count_of(record, "free")),
                       size(count_of(record, "missing")));
  return out + at_words(process, record) + '\n';
}

}  // namespace

void MemoryUse::take(const Json& record) {
  if (string(record, "record") == "out_of_memory") {
    if (ends_.size() < kMostEnds) ends_.push_back(record);
    return;
  }
  const auto same = [&](const Json& each) { return string(each, "device") == string(record, "device"); };
  std::erase_if(devices_, same);
  if (devices_.size() < kMostDevices) devices_.push_back(record);
}

std::string memory_text(const Json& process, const MemoryUse& memory, const Placement& placement) {
  if (memory.empty()) return {};
  std::string out = "Memory of devices at the most:\n";
  for (const Json& each : memory.devices()) out += device_line(process, each, placement);
  for (const Json& each : memory.ends()) out += end_line(process, each);
  return out;
}

}  // namespace devtrace::report
