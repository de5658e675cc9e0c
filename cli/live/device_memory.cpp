#include "cli/live/device_memory.h"

#include <algorithm>

#include "common/format.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli::live {

std::vector<MemoryRow> rows_of(const LiveMemory& memory) {
  std::vector<MemoryRow> rows;
  for (int index = 0; index < LiveMemory::kDevices; ++index) {
    const LiveMemory::Device& here = memory.devices[index];
    if (here.reserved > 0)
      rows.push_back({index, here.tensors,
                      fmt::format("memory of cuda:{}: tensors {}, peak {}; PyTorch holds {}", index,
                                  report::size(here.tensors), report::size(here.peak), report::size(here.reserved))});
    else if (here.allocated_peak > 0)
      rows.push_back({index, here.allocated,
                      fmt::format("memory of cuda:{}: allocated {}, peak {}, as far as is known", index,
                                  report::size(here.allocated), report::size(here.allocated_peak))});
  }
  return rows;
}

std::vector<std::string> MemoryChanges::since_last(const LiveMemory& memory) {
  std::vector<std::string> lines;
  for (const MemoryRow& row : rows_of(memory)) {
    uint64_t& shown = shown_[row.device];
    const uint64_t apart = std::max(shown, row.used) - std::min(shown, row.used);
    if (apart == 0 || apart < shown / 8) continue;
    shown = row.used;
    lines.push_back(row.text);
  }
  return lines;
}

}  // namespace devtrace::cli::live
