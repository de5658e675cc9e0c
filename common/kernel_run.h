// What the simulated driver says of a kernel that it has computed, to the library that watches the process. It looks
// for the function that kKernelRan names, and calls it on the thread that ran the kernel, with none of its locks held.
// Both sides are built together; all pointers are valid during the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace {

// An access that its device may not make, or that reads what nobody has set.
struct KernelAccess {
  enum class To : uint8_t {
    memory,     // that is there, and that the kernel's device has no access to
    nobodys,    // freed, never given out, or behind the end of a block
    texture,    // a texture or surface object of another device
    variable,   // of the module: it was read, has no value on this device, and one on `device`
    unwritten,  // that nothing has written since it was allocated: it was read
    shared,     // of the block: another thread has accessed it, and nothing orders the two
  } to = To::memory;
  bool writes = false;
  uint64_t address = 0;          // of `variable` that on `device`, of `texture` the handle, of `shared` the place
  size_t bytes = 0;              // that are read or written
  const char* instruction = "";  // "ld.global.f32"
  uint32_t block[3] = {}, thread[3] = {};
  const char* file = "";  // of the kernel's source, where the compiler says it; with its line
  uint32_t line = 0;
  int device = -1;         // whose memory, texture or value it is; -1: the host's, or not known
  const char* whose = "";  // in words
  // How the kernel came by the address: by a parameter and the byte in it, or by a variable; -1 and null: not known.
  int parameter = -1;
  uint32_t in_parameter = 0;
  const char* variable = nullptr;
  // The parameter or variable leads to memory in which the address stands, so many bytes from where that leads; -1: it
  // is itself the address.
  int64_t in_memory = -1;
};

struct KernelRun {
  const char* kernel = "";  // mangled
  int device = 0;
  uint32_t grid[3] = {}, block[3] = {};
  const void* parameters = nullptr;  // the whole block of them
  size_t parameter_bytes = 0;
  uint32_t launched_at = 0;              // what kCallSite answered when it was launched; 0: it is being launched now
  bool computed = true;                  // false: not to its end, and what it would have done is not known
  const KernelAccess* access = nullptr;  // null: all were as they should be
  // Whether kernels of that context may use the memory there: what they may not use was not used.
  const void* context = nullptr;
  bool (*usable)(const void* context, uint64_t address) = nullptr;
};

using KernelRan = void (*)(const KernelRun&);
inline constexpr const char* kKernelRan = "devtrace_kernel_ran";
// A number for what the calling thread is doing: of a launch whose kernel will run later, or on another thread.
using CallSite = uint32_t (*)();
inline constexpr const char* kCallSite = "devtrace_call_site";
// Whether the driver will say of a kernel that the calling thread is about to launch that it ran, before the launch
// returns.
using TellsOfKernel = bool (*)(const char* name, const void* stream);
inline constexpr const char* kTellsOfKernel = "devtrace_sim_tells_of_kernel";

}  // namespace devtrace
