// The parts a simulated device can pretend to be.
#pragma once

#include <cstddef>

namespace devtrace::simulate {

// Public properties of one real part. Sizes in bytes, clocks in kHz.
struct GpuModel {
  const char* key;                                         // what DEVTRACE_SIM_PART and --part say
  const char* name;                                        // the true product name; devices add " (simulated)"
  int major, minor;                                        // compute capability
  int architecture() const { return major * 10 + minor; }  // 90 for 9.0
  int multiprocessors;
  size_t memory;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  size_t l2_bytes;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  size_t shared_per_multiprocessor, shared_per_block_optin;
  bool ecc;
  int watts;  // the board's power limit
};

// The part called `key` (lower case), or null.
const GpuModel* find_gpu_model(const char* key);
// All keys, separated by ", ", for messages.
const char* gpu_model_keys();

}  // namespace devtrace::simulate
