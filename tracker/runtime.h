// What the tracker may ask of the process it lives in, answered by interpose/ (which knows the symbols). Slow path
// only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracker/kernels.h"

namespace devtrace {

struct DeviceFacts {
  int index = 0;
  std::string name;
  std::string uuid;
};

struct Runtime {
  int (*current_device)();        // of the calling thread; -1 when CUDA is not in use. Must not initialise CUDA.
  std::string (*cuda_version)();  // "13.0"; empty when unknown
  std::vector<DeviceFacts> (*devices)();  // empty when CUDA is not in use
  bool (*simulated)();                    // the devices are devtrace's own stand-ins
  // What a kernel's code does with its parameters; empty when nobody can read it. Takes milliseconds.
  kernels::Uses (*uses_of_parameters)(const void* function, const std::string& kernel);
  // Whether kernels of a device can read memory of the host: pinned, managed, or all of it. True when nobody can tell.
  bool (*host_within_reach)(int device, uintptr_t address);
};

// Set once, before the first event; every member is set.
void set_runtime(const Runtime& runtime);
const Runtime& runtime();

}  // namespace devtrace
