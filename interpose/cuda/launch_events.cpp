#include "interpose/cuda/launch_events.h"

#include "interpose/cuda/current_device.h"

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

// False: there are no parameters to look at.
bool add_parameters(events::Launch& launch, void** parameters, void** extra) {
  if (parameters) {
    launch.parameters = parameters;
    return true;
  }
  if (!extra) return false;
  for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
    if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) launch.block = entry[1];
    if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) launch.block_bytes = *static_cast<const size_t*>(entry[1]);
  }
  return launch.block != nullptr;
}

}  // namespace

void emit_launch(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target, void** parameters,
                 void** extra) {
  if (!events::wants_launches()) return;
  // Of a kernel without parameters, too: the runtime cannot be asked for its name once it has refused the launch.
  events::Launch launch = as_copy(function, handle, shape, target);
  if (add_parameters(launch, parameters, extra)) events::launched(launch);
}

// The driver can be asked of the stream: the launch has just used the same handle, and has come back.
void emit_refused_launch(const void* function, Handle handle, const Shape& shape, const LaunchTarget& target,
                         void** parameters, void** extra) {
  if (!events::wants_launches()) return;
  const int device = device_of_stream(target.stream);
  if (device < 0 || device == exact_current_device()) return;
  events::Launch launch = as_copy(function, handle, shape, target);
  launch.stream_device = device;
  add_parameters(launch, parameters, extra);
  events::launch_refused(launch);
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

// Called by the simulated driver (common/kernel_run.h).
extern "C" __attribute__((visibility("default"))) uint32_t devtrace_call_site() {
  return devtrace::events::call_site();
}

extern "C" __attribute__((visibility("default"))) void devtrace_kernel_ran(const devtrace::KernelRun& run) {
  devtrace::events::kernel_ran(run);
}
