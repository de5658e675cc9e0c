// What the tracker may ask of the process it lives in, answered by interpose/ (which knows the symbols). Slow path
// only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracker/interface/device.h"
#include "tracker/interface/extent.h"
#include "tracker/interface/kernel.h"

namespace devtrace {

struct DeviceFacts {
  int index = 0;
  std::string name;
  std::string uuid;
  uint64_t memory = 0;  // bytes; 0: not known
};

// What a library is expected to export and does not. All live as long as the process.
struct MissingSymbol {
  const char* library;
  const char* symbol;
  const char* effect;  // what that means for whoever reads the findings
};

struct Platform {
  int (*current_device)() = nullptr;  // of the calling thread; -1 when CUDA is not in use. Must not initialise CUDA.
  std::string (*cuda_version)() = nullptr;          // "13.0"; empty when unknown
  std::vector<DeviceFacts> (*devices)() = nullptr;  // empty when CUDA is not in use
  const char* (*backend)() = nullptr;               // which way events come: "interpose" or "cupti"
  bool (*simulated)() = nullptr;                    // the devices are devtrace's own stubs
  // Address of a symbol in a loaded object whose file name begins with `library`; nullptr when there is none.
  void* (*symbol)(const char* library, const char* name) = nullptr;
  std::vector<MissingSymbol> (*missing_symbols)() = nullptr;  // of the libraries that are loaded
  // What a kernel's code does with its parameters; empty when nobody can read it. Takes milliseconds.
  WordUses (*uses_of_parameters)(const void* function, const std::string& kernel) = nullptr;
  // What lies at an address; `extent` is filled in when it is known.
  enum class Answer { none, nobodys, known };
  Answer (*memory_at)(uint64_t address, Extent& extent) = nullptr;
  bool (*capturing)(const void* stream) = nullptr;  // are launches on it recorded in a graph?
  // Whether kernels of a device can read memory of the host: pinned, managed, or all of it. True when nobody can tell.
  bool (*host_within_reach)(int device, uintptr_t address) = nullptr;
  // Whether a device could be allowed to reach another's memory. True when nobody can tell.
  bool (*peer_possible)(int device, int peer) = nullptr;
  // Around fork(), for locks of its own, between those of launch/ and those of memory/; and before the end record.
  void (*before_fork)() = nullptr;
  void (*after_fork)(bool child) = nullptr;
  void (*before_end)() = nullptr;
};

// Set once, before the first event; every member is set, but in unit tests.
void set_platform(const Platform& answers);
const Platform& platform();

}  // namespace devtrace
