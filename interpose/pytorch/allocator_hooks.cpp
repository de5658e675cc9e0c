// What PyTorch's allocators tell its memory profiler: every block that they give and take back.

#include <cstddef>
#include <cstdint>

#include "interpose/pytorch/hook.h"
#include "tracker/events.h"

using devtrace::interpose::TorchDevice;
namespace events = devtrace::events;

namespace {

// The CPU's blocks are told below, before it is asked whether there is a profiler; its totals say nothing.
void on_report(void* address, int64_t signed_bytes, size_t allocated, size_t reserved, TorchDevice of) noexcept {
  const devtrace::Device device = devtrace::interpose::tracked(of);
  if (device == devtrace::Device::cpu()) return;
  if (signed_bytes > 0)
    events::block_given(address, static_cast<size_t>(signed_bytes), device);
  else
    events::block_taken(address);
  events::torch_has(device, allocated, reserved);
}

}  // namespace

// The CPU's allocator tells only while a profiler of the program's is at work, and then under a lock that the whole
// process shares. It must not be made to tell always, or a process that is forked while another thread allocates would
// wait for that lock for ever.
PYTORCH_HOOK(void, cpu_block_made, (void* self, void* address, size_t bytes),
             _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm) {
  if (bytes != 0) events::block_given(address, bytes, devtrace::Device::cpu());
  ORIGINAL_AS(_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm, cpu_block_made)(self, address, bytes);
}
PYTORCH_HOOK(void, cpu_block_freed, (void* self, void* address), _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv) {
  events::block_taken(address);
  ORIGINAL_AS(_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv, cpu_block_freed)(self, address);
}

#define MEMORY_HOOK(name, size, symbol)                                                                       \
  PYTORCH_HOOK(void, name, (void* address, int64_t bytes, size allocated, size reserved, TorchDevice device), \
               symbol) {                                                                                      \
    on_report(address, bytes, static_cast<size_t>(allocated), static_cast<size_t>(reserved), device);         \
    ORIGINAL_AS(symbol, name)(address, bytes, allocated, reserved, device);                                   \
  }
MEMORY_HOOK(report_memory, size_t, _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
MEMORY_HOOK(report_memory_1_13, int64_t, _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
