// Launches and copies that a finding is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "common/kernel_run.h"
#include "tracker/interface/event_types.h"
#include "tracker/memory/copy_ends.h"

namespace devtrace::findings {

// A launch that was given memory of another device, or of the host that devices cannot reach; or one that CUDA refused
// for its stream (`launch.stream_device`), wherever its memory lies.
struct MisplacedLaunch {
  struct Pointer {
    static constexpr uint16_t kNoParameter = UINT16_MAX;  // it is not known how the kernel came there
    uintptr_t address;
    Device device;                   // the owner of the memory it points into
    uint16_t parameter;              // index
    uint16_t in_parameter;           // bytes from the parameter's start
    bool in_table = false;           // it is the first one of a table to which that parameter leads
    uint32_t in_memory = 0;          // then where in that, in bytes
    const char* variable = nullptr;  // of the module, by which the kernel came there, and by no parameter
  };
  const events::Launch& launch;
  Device device;  // on which the kernel is to run
  // Into memory of devices, or such of the host; in order. At least one leads elsewhere, but of a launch that was
  // refused.
  std::vector<Pointer> pointers;
  // What the kernel did, where a simulated driver has computed it; then the launch is a finding whatever it was given.
  const KernelAccess* access = nullptr;
  size_t accessed = 0;       // by which of the pointers it came there
  uint32_t launched_at = 0;  // the stack, if that is not the calling thread's; 0: it is
};

// A call of a mathematics library that was given memory of another device than its handle's; or one that the library
// refused, for another device than the handle's was current.
struct MisplacedLibraryCall {
  struct Pointer {
    uintptr_t address;
    Device device;      // the owner of the memory it points into
    uint16_t argument;  // index; the handle is 0
  };
  const events::LibraryCall& call;
  Device device;  // of the handle
  std::vector<Pointer> pointers;
  bool refused = false;
  bool on_stream = false;  // CUDA refused it: the pointer is no memory but a stream, of another device than the event
};

// A copy whose ends do not lie where its caller says.
struct MisplacedCopy {
  struct End {
    memory::CopyEnd end;
    Device owner;  // exact; unknown for memory that nobody saw, and for memory that is every device's
    bool wrong = false;
    Device runs_into;  // known: the copy goes on, past the end's own memory, into this device's
  };
  const events::Copy& copy;
  End to;
  End from;
};

}  // namespace devtrace::findings
