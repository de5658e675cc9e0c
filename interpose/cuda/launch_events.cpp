#include "interpose/cuda/launch_events.h"

namespace devtrace::interpose {
namespace {

events::Launch as_copy(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target) {
  events::Launch launch;
  launch.function = function;
  launch.kernel = kernel_of(function, handle);
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = shape.grid[i];
    launch.block_shape[i] = shape.block[i];
  }
  launch.stream = target.stream;
  launch.graph = target.graph;
  launch.device = target.device;
  return launch;
}

}  // namespace

void emit_launch(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target, void** parameters,
                 void** extra) {
  if (!events::wants_launches()) return;
  if (parameters) {
    events::Launch launch = as_copy(function, handle, shape, target);
    launch.parameters = parameters;
    return events::launched(launch);
  }
  if (!extra) return;
  const void* block = nullptr;
  size_t bytes = 0;
  for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
    if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) block = entry[1];
    if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(entry[1]);
  }
  emit_launch_block(function, handle, shape, target, block, bytes);
}

void emit_launch_block(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target,
                       const void* block, size_t bytes) {
  if (!block || !events::wants_launches()) return;
  events::Launch launch = as_copy(function, handle, shape, target);
  launch.block = block;
  launch.block_bytes = bytes;
  events::launched(launch);
}

}  // namespace devtrace::interpose
