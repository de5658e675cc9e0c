// What the environment asks of the simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "simulate/settings/gpu_models.h"
#include "simulate/settings/option_parsing.h"

namespace devtrace::simulate {

// Which kernels are computed by their PTX.
enum class KernelPolicy : uint8_t {
  none,
  others,  // those that no compiler of NVIDIA's has made
  all,     // --kernels
};

struct Settings {
  int host = 0;                         // which machine of several, 0–kMaxHosts-1
  int gpus = 1;                         // devices of the machine, 1–16
  const GpuModel* gpu_model = nullptr;  // never null once read
  size_t memory = 0;                    // bytes a device has
  Peers peers = all_peers();            // of physical devices
  int visible[kMaxDevices] = {};        // physical index of each visible device, by CUDA_VISIBLE_DEVICES
  int visible_count = 0;
  bool launch_blocking = false;  // CUDA_LAUNCH_BLOCKING: a launch waits, and returns the kernel's own error
  bool old_driver = false;       // DEVTRACE_SIM_OLD_DRIVER: of before CUDA 12.3, which tells nothing of a kernel
  bool no_faults =
      false;  // DEVTRACE_SIM_NO_FAULTS: a kernel's bad pointers go unnoticed, for tests of what is told before
  std::optional<uint64_t> async;  // DEVTRACE_SIM_ASYNC: the seed of the schedule by which streams run behind the host
  bool pageable = false;          // DEVTRACE_SIM_PAGEABLE: devices reach all of the host's memory
  KernelPolicy kernels = KernelPolicy::others;  // DEVTRACE_SIM_KERNELS, 0 or 1; none where values are not computed
  bool kernel_checks = false;                   // DEVTRACE_SIM_KERNEL_CHECKS=all: races, memory never written
  unsigned kernel_threads = 1;                  // of the host, for one launch
  double kernel_seconds = 600;                  // DEVTRACE_SIM_KERNEL_SECONDS: after which a kernel is ended
};

// Read once, at the first use of CUDA. A bad value is one line on stderr, and the default stands.
const Settings& settings();

}  // namespace devtrace::simulate
