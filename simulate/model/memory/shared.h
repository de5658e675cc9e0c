// Memory of another process's devices: opened by what that process tells of it, through the file behind its arena.
#pragma once

#include <cstddef>

#include "simulate/common/cuda_headers.h"
#include "simulate/model/memory/memory.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {

// What crosses to the other process, as plain bytes. Of this process, until something else is written over it.
struct MemoryTicket {
  char magic[16] = "devtrace-ipc-1";
  int host = settings().host, pid = 0, file = -1, physical_device = 0;
  size_t offset = 0, size = 0;
};

MemoryTicket ticket_of(const Allocation& allocation);
// Whether these bytes are a ticket, and of this host.
bool read_ticket(const void* bytes, MemoryTicket* ticket);
// Its device here; −1: not visible.
int ordinal_of(const MemoryTicket& ticket);
// Maps it, as an allocation of kind `imported`. CUDA_ERROR_INVALID_VALUE: its owner is gone.
CUresult open_ticket(const MemoryTicket& ticket, CUcontext context, CUmemoryPool pool, CUdeviceptr* address);
// The opposite. CUDA_ERROR_INVALID_VALUE: nothing was opened at that address.
CUresult close_imported(CUdeviceptr address);

}  // namespace devtrace::simulate
