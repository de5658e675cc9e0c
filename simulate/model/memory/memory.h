// What is allocated where: the one registry of memory that the simulated driver knows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulate/common/cuda_headers.h"

namespace devtrace::simulate {

enum class AllocationKind {
  device,      // cuMemAlloc and stream-ordered pools
  managed,     // host and every device
  pinned,      // cuMemHostAlloc: the driver owns the bytes
  registered,  // cuMemHostRegister: the program owns them
  reserved,    // an address range of virtual memory management; nothing behind it
  mapped,      // a piece of such a range with memory behind it
  imported,    // another process's memory, opened by handle
  array,       // behind a CUarray; no device address of its own
};

struct Allocation {
  uintptr_t base = 0;
  size_t size = 0;
  AllocationKind kind = AllocationKind::device;
  int device = -1;  // ordinal of the owner; −1: the host
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  unsigned flags = 0;                       // of the call that made it
  unsigned long long id = 0;                // CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint32_t access = 0;                      // mapped: bit per device ordinal that may use it
  size_t offset = 0;                        // mapped: where in its physical memory
  CUmemGenericAllocationHandle handle = 0;  // mapped
};

// Allocations by address. All functions may be called by any thread.
void remember(Allocation allocation);  // gives it its id
bool forget(uintptr_t base, Allocation* was);
// Whether an allocation (not a bare reservation) holds the address; if so, a copy of it.
bool find_memory(uintptr_t address, Allocation* found);
// The reservation that holds the address.
bool find_reservation(uintptr_t address, Allocation* found);
bool forget_reservation(uintptr_t base, size_t size);
// Changes the access bits of every mapping inside the range; false when part of it is not mapped.
bool set_access(uintptr_t base, size_t size, int device, bool allowed);
void set_flags(uintptr_t base, unsigned flags);
// Something was written there: a module's variable has a value from now on.
void written_to(uintptr_t address, bool by_host);

// Device memory of the part's true size: the address, or 0 when it is used up.
CUresult allocate_device(int ordinal, size_t size, CUcontext context, CUmemoryPool pool, CUdeviceptr* address);
CUresult free_device(CUdeviceptr address);
// Memory of the host's that devices may use, pinned or managed: zeros, in pages of its own.
CUresult allocate_host(void** out, size_t size, AllocationKind kind, unsigned flags, int device, CUcontext context);

// A context's end is its memory's. What a module brought along stays, as modules here do.
constexpr unsigned kOfModule = 1u << 31;   // Allocation::flags
constexpr unsigned kSet = 1u << 30;        // ... of a module's variable that has a value
constexpr unsigned kSetByHost = 1u << 29;  // ... which the program copied there
void end_memory_of(CUcontext context);

// The ordinal of the device that owns the address without a look at the registry for plain device memory; −1: no
// device's.
int owner_of(uintptr_t address);

}  // namespace devtrace::simulate
