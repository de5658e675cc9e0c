// Launches as they were before CUDA 4, which the driver still has. The parameters are set one by one, into the function
// itself, and a launch names nothing but the function.

#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "interpose/cuda/hook.h"
#include "interpose/cuda/launch_events.h"
#include "tracker/base/address_map.h"
#include "tracker/base/arena.h"

using devtrace::interpose::Call;
using devtrace::interpose::Handle;
using devtrace::interpose::Shape;
namespace events = devtrace::events;

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // programs that call them are none the newer for it

namespace {

// What has been set for a function. Such programs set parameters of one function from one thread at a time: CUDA itself
// asks for it.
struct Pending {
  static constexpr size_t kMost = 4096;  // bytes of parameters
  unsigned block[3] = {1, 1, 1};
  size_t bytes = 0;
  unsigned char parameters[kMost] = {};
};
struct Entry {
  uintptr_t function = 0;
  Pending* pending = nullptr;
  uint64_t key() const { return function; }
};
constinit devtrace::AddressMap<Entry> entries;
constinit devtrace::Arena arena;  // as small as the number of such functions

Pending* pending_of(CUfunction function) {
  Entry entry;
  const auto key = reinterpret_cast<uintptr_t>(function);
  if (!function) return nullptr;
  if (!entries.get(key, entry)) {
    entry = {key, arena.make<Pending>()};
    if (!entry.pending) return nullptr;
    entries.put(entry);
  }
  return entry.pending;
}

void set(CUfunction function, int offset, const void* value, size_t bytes) {
  Pending* const pending = pending_of(function);
  if (!pending || !value || offset < 0 || static_cast<size_t>(offset) > Pending::kMost) return;
  bytes = std::min(bytes, Pending::kMost - static_cast<size_t>(offset));
  std::memcpy(pending->parameters + offset, value, bytes);
  pending->bytes = std::max(pending->bytes, static_cast<size_t>(offset) + bytes);
}

void emit_pending(const Call& call, CUfunction function, int width, int height, CUstream stream) {
  const Pending* const pending = call.before() ? pending_of(function) : nullptr;
  if (!pending) return;
  const Shape shape{{static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
                    {pending->block[0], pending->block[1], pending->block[2]}};
  devtrace::interpose::emit_launch_block(function, Handle::function, shape, {stream}, pending->parameters,
                                         pending->bytes);
}

}  // namespace

DRIVER_HOOK(cuFuncSetBlockShape, (CUfunction function, int x, int y, int z)) {
  if (Pending* const pending = pending_of(function)) {
    pending->block[0] = static_cast<unsigned>(x);
    pending->block[1] = static_cast<unsigned>(y);
    pending->block[2] = static_cast<unsigned>(z);
  }
  return CALL_DRIVER(cuFuncSetBlockShape, (function, x, y, z));
}
DRIVER_HOOK(cuParamSetv, (CUfunction function, int offset, void* value, unsigned bytes)) {
  set(function, offset, value, bytes);
  return CALL_DRIVER(cuParamSetv, (function, offset, value, bytes));
}
DRIVER_HOOK(cuParamSeti, (CUfunction function, int offset, unsigned value)) {
  set(function, offset, &value, sizeof value);
  return CALL_DRIVER(cuParamSeti, (function, offset, value));
}
DRIVER_HOOK(cuParamSetf, (CUfunction function, int offset, float value)) {
  set(function, offset, &value, sizeof value);
  return CALL_DRIVER(cuParamSetf, (function, offset, value));
}

DRIVER_HOOK(cuLaunch, (CUfunction function)) {
  const Call call;
  emit_pending(call, function, 1, 1, nullptr);
  return CALL_DRIVER(cuLaunch, (function));
}
DRIVER_HOOK(cuLaunchGrid, (CUfunction function, int width, int height)) {
  const Call call;
  emit_pending(call, function, width, height, nullptr);
  return CALL_DRIVER(cuLaunchGrid, (function, width, height));
}
DRIVER_HOOK(cuLaunchGridAsync, (CUfunction function, int width, int height, CUstream stream)) {
  const Call call;
  emit_pending(call, function, width, height, stream);
  return CALL_DRIVER(cuLaunchGridAsync, (function, width, height, stream));
}
