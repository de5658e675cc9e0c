// Pools that another process opens, and single allocations of theirs.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "simulate/cuda/api.h"
#include "simulate/model/memory/pool.h"
#include "simulate/model/memory/shared.h"

namespace {

using simulate::MemoryTicket;
static_assert(sizeof(MemoryTicket) <= sizeof(CUmemPoolPtrExportData));

bool alive(CUmemoryPool pool) {
  return simulate::handles<CUmemPoolHandle_st>().has(pool);
}

// The descriptor that stands for a pool: a file of its own that says where the pool's memory lies.
struct PoolTicket {
  char magic[16] = "devtrace-pool-1";
  int host = simulate::settings().host, physical_device = 0;
};

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  TRY(ready());
  if (!handle || flags || !alive(pool) || pool->imported || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !(pool->properties.handleTypes & type))
    return CUDA_ERROR_INVALID_VALUE;
  PoolTicket ticket;
  ticket.physical_device = simulate::device(pool->device).physical;
  const int fd = memfd_create("devtrace-pool-handle", MFD_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (write(fd, &ticket, sizeof ticket) != sizeof ticket) {
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::memcpy(handle, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle, CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  TRY(ready());
  PoolTicket ticket;
  const PoolTicket expected;
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pread(fd, &ticket, sizeof ticket, 0) != sizeof ticket ||
      std::memcmp(ticket.magic, expected.magic, sizeof ticket.magic) || ticket.host != expected.host)
    return CUDA_ERROR_INVALID_VALUE;
  const int ordinal = simulate::ordinal_of(ticket.physical_device);
  if (ordinal < 0) return CUDA_ERROR_INVALID_DEVICE;
  *pool = simulate::create_pool(ordinal, false);
  (*pool)->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  (*pool)->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}};
  (*pool)->imported = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* exported, CUdeviceptr pointer) {
  TRY(ready());
  simulate::Allocation a;
  if (!exported || !simulate::find_memory(pointer, &a) || a.base != pointer ||
      a.kind != simulate::AllocationKind::device || !a.pool || !a.pool->properties.handleTypes)
    return CUDA_ERROR_INVALID_VALUE;
  const MemoryTicket ticket = simulate::ticket_of(a);
  std::memset(exported, 0, sizeof *exported);
  std::memcpy(exported, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* pointer, CUmemoryPool pool, CUmemPoolPtrExportData* exported) {
  REQUIRE_CONTEXT(context);
  MemoryTicket ticket;
  if (!pointer || !exported || !alive(pool) || !pool->imported || !simulate::read_ticket(exported, &ticket) ||
      simulate::ordinal_of(ticket) != pool->device)
    return CUDA_ERROR_INVALID_VALUE;
  return simulate::open_ticket(ticket, context, pool, pointer);
}

}  // extern "C"
