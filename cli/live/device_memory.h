// A process's memory by device, as libdevtrace.so keeps it there, in words.
#pragma once

#include <string>
#include <vector>

#include "common/live_memory.h"

namespace devtrace::cli::live {

struct MemoryRow {
  int device = 0;
  uint64_t used = 0;
  std::string text;
};

// A row for each device with memory. Of a program with PyTorch what its allocator says; else what was allocated as far
// as it was seen, or CUDA was asked for it.
std::vector<MemoryRow> rows_of(const LiveMemory& memory);

// Those that are worth a line of their own after the last that was shown: another eighth is in use, or no more.
class MemoryChanges {
 public:
  std::vector<std::string> since_last(const LiveMemory& memory);

 private:
  uint64_t shown_[LiveMemory::kDevices] = {};
};

}  // namespace devtrace::cli::live
