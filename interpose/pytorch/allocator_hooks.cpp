// What PyTorch's allocators tell its memory profiler: every block that they give and take back.

#include <cstddef>
#include <cstdint>

#include "interpose/pytorch/hook.h"
#include "tracker/events.h"

using devtrace::Device;
using devtrace::interpose::TorchDevice;
using devtrace::interpose::tracked;
namespace events = devtrace::events;

// The CPU's allocator tells only while a profiler of the program's is at work, and then under a lock that the whole
// process shares. It must not be made to tell always, or a process that is forked while another thread allocates would
// wait for that lock for ever.
PYTORCH_HOOK(void, cpu_block_made, (void* self, void* address, size_t bytes),
             _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm) {
  if (bytes != 0) events::block_given(address, bytes, Device::cpu());
  ORIGINAL_AS(_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm, cpu_block_made)(self, address, bytes);
}
PYTORCH_HOOK(void, cpu_block_freed, (void* self, void* address), _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv) {
  events::block_taken(address);
  ORIGINAL_AS(_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv, cpu_block_freed)(self, address);
}

namespace {
// What a report was called with, in memory: in registers it would have to be saved around what is told, and these
// be given back.
struct Report : events::BlockReport {
  TorchDevice of;
};
}  // namespace

// The CPU's blocks are told above, before it is asked whether there is a profiler; its totals say nothing.
#define MEMORY_HOOK(name, size, symbol)                                                                                \
  PYTORCH_HOOK(void, name, (void* address, int64_t bytes, size allocated, size reserved, TorchDevice of), symbol) {    \
    Report report{{address, bytes, {tracked(of), static_cast<size_t>(allocated), static_cast<size_t>(reserved)}}, of}; \
    if (report.has.device != Device::cpu()) events::block_reported(report);                                            \
    ORIGINAL_AS(symbol, name)                                                                                          \
    (const_cast<void*>(report.address), report.bytes, static_cast<size>(report.has.tensors),                           \
     static_cast<size>(report.has.reserved), report.of);                                                               \
  }
MEMORY_HOOK(report_memory, size_t, _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
MEMORY_HOOK(report_memory_1_13, int64_t, _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
