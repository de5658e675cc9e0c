// Virtual memory management of the driver API: reserve addresses, create memory, map the one to the other. PyTorch's
// expandable segments are made of it.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"

namespace {

// Physical memory. Lives until it is released by the program and unmapped everywhere.
struct Physical {
  int device = 0;  // ordinal
  size_t size = 0;
  size_t offset = 0;  // in the device's file
  int file = -1;      // imported: the descriptor of another process's device
  int references = 1;
  CUmemAllocationProp properties = {};
};

std::mutex g_mutex;
std::unordered_map<CUmemGenericAllocationHandle, Physical> g_physical;

simulate::Arena& arena_of(int ordinal) {
  return simulate::arena(simulate::device(ordinal).physical);
}

void drop(CUmemGenericAllocationHandle handle) {
  auto it = g_physical.find(handle);
  if (it == g_physical.end() || --it->second.references) return;
  if (it->second.file >= 0)
    close(it->second.file);
  else
    arena_of(it->second.device).release_physical(it->second.offset, it->second.size);
  g_physical.erase(it);
}

CUmemGenericAllocationHandle add(Physical physical) {
  static CUmemGenericAllocationHandle next = 0x5100000001;
  CUmemGenericAllocationHandle handle = next++;
  g_physical[handle] = physical;
  return handle;
}

// The descriptor that stands for exported memory: a file of its own that says where the bytes are.
struct Ticket {
  char magic[16] = "devtrace-vmm-1";
  int pid, file, physical_device;
  size_t offset, size;
};

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                               CUmemAllocationGranularity_flags) {
  TRY(ready());
  if (!granularity || !properties) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !simulate::valid_device(properties->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  *granularity = simulate::kChunk;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* pointer, size_t size, size_t alignment, CUdeviceptr,
                                     unsigned long long flags) {
  TRY(ready());
  if (!pointer || !size || size % simulate::kChunk || flags || (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment < simulate::kChunk) alignment = simulate::kChunk;
  void* raw = mmap(nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto start = reinterpret_cast<uintptr_t>(raw);
  uintptr_t base = (start + alignment - 1) / alignment * alignment;
  if (base > start) munmap(raw, base - start);
  munmap(reinterpret_cast<void*>(base + size), start + alignment - base);
  simulate::Allocation a;
  a.base = base;
  a.size = size;
  a.kind = simulate::AllocationKind::reserved;
  simulate::remember(a);
  *pointer = base;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr pointer, size_t size) {
  TRY(ready());
  simulate::Allocation a;
  for (uintptr_t at = pointer; at < pointer + size; at += simulate::kChunk)
    if (simulate::find_memory(at, &a)) return CUDA_ERROR_INVALID_VALUE;  // still mapped
  if (!simulate::forget_reservation(pointer, size)) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(pointer), size);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                             unsigned long long flags) {
  TRY(ready());
  if (!handle || !properties || !size || size % simulate::kChunk || flags) return CUDA_ERROR_INVALID_VALUE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!simulate::valid_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (properties->requestedHandleTypes & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return CUDA_ERROR_NOT_SUPPORTED;
  Physical p;
  p.device = properties->location.id;
  p.size = size;
  p.properties = *properties;
  p.offset = arena_of(p.device).allocate_physical(size);
  if (p.offset == SIZE_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(g_mutex);
  *handle = add(p);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  TRY(ready());
  std::lock_guard lock(g_mutex);
  if (!g_physical.count(handle)) return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  TRY(ready());
  simulate::Allocation a;
  if (!handle || !simulate::find_memory(reinterpret_cast<uintptr_t>(address), &a) ||
      a.kind != simulate::AllocationKind::mapped)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_mutex);
  ++g_physical[a.handle].references;
  *handle = a.handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  TRY(ready());
  simulate::Allocation reservation, overlap;
  if (flags || !size || size % simulate::kChunk || offset % simulate::kChunk || pointer % simulate::kChunk)
    return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::find_reservation(pointer, &reservation) || pointer - reservation.base + size > reservation.size)
    return CUDA_ERROR_INVALID_VALUE;
  for (uintptr_t at = pointer; at < pointer + size; at += simulate::kChunk)
    if (simulate::find_memory(at, &overlap)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_mutex);
  auto it = g_physical.find(handle);
  if (it == g_physical.end() || offset + size > it->second.size) return CUDA_ERROR_INVALID_VALUE;
  Physical& p = it->second;
  int file = p.file >= 0 ? p.file : arena_of(p.device).file();
  // No access until cuMemSetAccess, as on hardware.
  void* at = mmap(reinterpret_cast<void*>(pointer), size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
                  static_cast<off_t>(p.offset + offset));
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(at, size, MADV_DONTFORK);
  ++p.references;
  simulate::Allocation a;
  a.base = pointer;
  a.size = size;
  a.kind = simulate::AllocationKind::mapped;
  a.device = p.device;
  a.context = simulate::device(p.device).primary;
  a.handle = handle;
  a.offset = offset;
  simulate::remember(a);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr pointer, size_t size) {
  TRY(ready());
  simulate::Allocation a;
  for (uintptr_t at = pointer; at < pointer + size; at = a.base + a.size)
    if (!simulate::find_memory(at, &a) || a.kind != simulate::AllocationKind::mapped || a.base < pointer ||
        a.base + a.size > pointer + size)
      return CUDA_ERROR_INVALID_VALUE;
  simulate::finish_work();
  for (uintptr_t at = pointer; at < pointer + size; at = a.base + a.size) {
    simulate::forget(at, &a);
    std::lock_guard lock(g_mutex);
    drop(a.handle);
  }
  mmap(reinterpret_cast<void*>(pointer), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc* descriptors, size_t count) {
  TRY(ready());
  if (!descriptors || !count) return CUDA_ERROR_INVALID_VALUE;
  bool usable = false;
  for (size_t i = 0; i < count; ++i) {
    if (descriptors[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
    int device = descriptors[i].location.id;
    if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    bool allowed = descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!simulate::set_access(pointer, size, device, allowed)) return CUDA_ERROR_INVALID_VALUE;
    usable |= allowed;
  }
  if (usable) mprotect(reinterpret_cast<void*>(pointer), size, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  TRY(ready());
  simulate::Allocation a;
  if (!flags || !location || !simulate::find_memory(pointer, &a) || !simulate::valid_device(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = a.access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle handle) {
  TRY(ready());
  std::lock_guard lock(g_mutex);
  auto it = g_physical.find(handle);
  if (!properties || it == g_physical.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = it->second.properties;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long) {
  TRY(ready());
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(g_mutex);
  auto it = g_physical.find(handle);
  if (!shareable || it == g_physical.end() || it->second.file >= 0) return CUDA_ERROR_INVALID_VALUE;
  Physical& p = it->second;
  Ticket ticket;
  ticket.pid = getpid();
  ticket.file = arena_of(p.device).file();
  ticket.physical_device = simulate::device(p.device).physical;
  ticket.offset = p.offset;
  ticket.size = p.size;
  int fd = memfd_create("devtrace-vmm-handle", MFD_CLOEXEC);
  if (fd < 0 || write(fd, &ticket, sizeof ticket) != sizeof ticket) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(shareable) = fd;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                CUmemAllocationHandleType type) {
  TRY(ready());
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Ticket ticket = {}, expected;
  int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  if (!handle || pread(fd, &ticket, sizeof ticket, 0) != sizeof ticket ||
      __builtin_memcmp(ticket.magic, expected.magic, 16))
    return CUDA_ERROR_INVALID_VALUE;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.pid, ticket.file);
  Physical p;
  p.file = simulate::open_shared(path);
  p.device = simulate::ordinal_of(ticket.physical_device);
  if (p.file < 0 || p.device < 0) return CUDA_ERROR_INVALID_VALUE;
  p.size = ticket.size;
  p.offset = ticket.offset;
  p.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, p.device};
  std::lock_guard lock(g_mutex);
  *handle = add(p);
  return CUDA_SUCCESS;
}

}  // extern "C"
