#include "simulate/model/memory/shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "simulate/model/device.h"
#include "simulate/model/memory/arena.h"

namespace devtrace::simulate {
namespace {

// Of the host's: arm64's kernels have 4, 16 or 64 KiB. A small allocation begins anywhere in one.
size_t page() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t whole_pages(size_t bytes) {
  return (bytes + page() - 1) / page() * page();
}

}  // namespace

MemoryTicket ticket_of(const Allocation& a) {
  const int physical = device(a.device).physical;
  MemoryTicket t;
  t.pid = getpid();
  t.file = arena(physical).file();
  t.physical_device = physical;
  t.offset = a.base - arena(physical).base();
  t.size = a.size;
  return t;
}

bool read_ticket(const void* bytes, MemoryTicket* ticket) {
  const MemoryTicket expected;
  std::memcpy(static_cast<void*>(ticket), bytes, sizeof *ticket);
  return !std::memcmp(ticket->magic, expected.magic, sizeof expected.magic) && ticket->host == expected.host;
}

int ordinal_of(const MemoryTicket& ticket) {
  return ordinal_of(ticket.physical_device);
}

CUresult open_ticket(const MemoryTicket& t, CUcontext context, CUmemoryPool pool, CUdeviceptr* address) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", t.pid, t.file);
  const int fd = open_shared(path);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  // Whole pages around the allocation, at an address that begins a chunk: a chunk of device addresses has one owner.
  const size_t lead = t.offset % page(), length = whole_pages(lead + t.size);
  void* const raw = mmap(nullptr, length + kChunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const uintptr_t base = (reinterpret_cast<uintptr_t>(raw) + kChunk - 1) / kChunk * kChunk;
  void* const at = raw == MAP_FAILED
                       ? raw
                       : mmap(reinterpret_cast<void*>(base), length, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, static_cast<off_t>(t.offset - lead));
  close(fd);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(at, length, MADV_DONTFORK);
  Allocation a;
  a.base = base + lead;
  a.size = t.size;
  a.kind = AllocationKind::imported;
  a.device = ordinal_of(t);
  a.context = context;
  a.pool = pool;
  remember(a);
  *address = a.base;
  return CUDA_SUCCESS;
}

CUresult close_imported(CUdeviceptr address) {
  Allocation a;
  if (!find_memory(address, &a) || a.kind != AllocationKind::imported || a.base != address || !forget(address, &a))
    return CUDA_ERROR_INVALID_VALUE;
  const size_t lead = a.base % page();
  munmap(reinterpret_cast<void*>(a.base - lead), whole_pages(lead + a.size));
  return CUDA_SUCCESS;
}

}  // namespace devtrace::simulate
