// What PyTorch's allocators report to its memory profiler: every block that they give and take back.

#include <cstddef>
#include <cstdint>

#include "interpose/pytorch/hook.h"
#include "interpose/pytorch/torch_device.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"

using devtrace::interpose::TorchDevice;
namespace events = devtrace::events;

namespace {

void on_block(void* address, int64_t signed_bytes, TorchDevice device) noexcept {
  if (signed_bytes > 0)
    events::block_given(address, static_cast<size_t>(signed_bytes), devtrace::interpose::tracked(device));
  else
    events::block_taken(address);
}

// Of the CPU's allocator they say nothing.
void on_totals(TorchDevice device, size_t allocated, size_t reserved) noexcept {
  events::torch_has(devtrace::interpose::tracked(device), allocated, reserved);
}

// The CPU allocator of PyTorch complains on stderr of blocks that it is told to report the end of, and had not been
// told to report the beginning of: those from before devtrace was attached, and from
// while it was paused.
thread_local constinit bool unreported = false;

}  // namespace

PYTORCH_HOOK(void, cpu_block_freed, (void* self, void* address), _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv) {
  const bool may_be_unknown = devtrace::process_start::attached() > 0 || devtrace::thread_state::paused_once();
  unreported = may_be_unknown && !events::knows_block(address);
  ORIGINAL_AS(_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv, cpu_block_freed)(self, address);
  unreported = false;
}

// True makes PyTorch's CPU allocator report every block, as its CUDA allocator always does.
PYTORCH_HOOK(bool, memory_profiling_enabled, (), _ZN3c1022memoryProfilingEnabledEv) {
  return (events::wants_blocks() && !unreported) ||
         ORIGINAL_AS(_ZN3c1022memoryProfilingEnabledEv, memory_profiling_enabled)();
}

// Only with a profiler of the program's own may the original be called: without one it follows a null pointer.
#define MEMORY_HOOK(name, size, symbol)                                                                       \
  PYTORCH_HOOK(void, name, (void* address, int64_t bytes, size allocated, size reserved, TorchDevice device), \
               symbol) {                                                                                      \
    on_block(address, bytes, device);                                                                         \
    on_totals(device, static_cast<size_t>(allocated), static_cast<size_t>(reserved));                         \
    if (ORIGINAL_AS(_ZN3c1022memoryProfilingEnabledEv, memory_profiling_enabled)())                           \
      ORIGINAL_AS(symbol, name)(address, bytes, allocated, reserved, device);                                 \
  }
MEMORY_HOOK(report_memory, size_t, _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
MEMORY_HOOK(report_memory_1_13, int64_t, _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
