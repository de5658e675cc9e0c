#include "interpose/cuda/ipc_memory.h"

#include <cstddef>

#include "interpose/cuda/current_device.h"
#include "tracker/events.h"

namespace devtrace::interpose {

void emit_opened(uint64_t address) {
  uint64_t base = 0;
  size_t bytes = 0;
  if (range_around(address, base, bytes)) events::allocated(reinterpret_cast<const void*>(base), bytes, owner(base));
}

}  // namespace devtrace::interpose
