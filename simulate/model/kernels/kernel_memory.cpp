#include "simulate/model/kernels/kernel_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "simulate/model/attributes.h"
#include "simulate/model/device.h"
#include "simulate/model/graph/conditional.h"
#include "simulate/model/kernels/fault.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/textures.h"
#include "simulate/settings/settings.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {

namespace {

// Up to where the next block may begin nothing else lies, and hardware does not fault.
size_t padded(size_t bytes) {
  return (bytes + kGrain - 1) / kGrain * kGrain;
}

// PyTorch's operators write without a call of the driver, so of its allocator's memory nothing is known.
bool is_pytorchs(uintptr_t address) {
  const values::BlockOf block_of = values::block_of();
  uintptr_t begin;
  size_t size;
  return block_of ? block_of(address, &begin, &size) : values::has_torch();
}

}  // namespace

kernels::Memory::Found KernelMemory::find(uintptr_t address, size_t size, bool writes, kernels::Extent* extent) {
  if (address - workspace() < sizeof workspace_) {
    *extent = {workspace(), sizeof workspace_};
    return Found::yes;
  }
  Allocation a;
  const bool inside = find_memory(address, &a);
  if (container_ && (!inside || size > a.base + a.size - address) && (inside || block_before(address, &a)) &&
      usable(context_, a) && a.kind == AllocationKind::device && address + size <= a.base + padded(a.size)) {
    *extent = {a.base, padded(a.size)};
    return Found::noted;
  }
  if (inside) {
    if (!settings().no_faults && !usable(context_, a)) return Found::no;
    *extent = {a.base, a.size};
    const bool no_value = (a.flags & (kOfModule | kSet)) == kOfModule && a.kind != AllocationKind::managed;
    if (no_value && writes) written_to(address, false);
    return no_value && !writes && container_ && set_elsewhere(*container_, a.base, context_->device) ? Found::noted
                                                                                                     : Found::yes;
  }
  // With DEVTRACE_SIM_PAGEABLE all that the host has, page by page.
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  const uintptr_t begin = address & ~(page - 1);
  if (!settings().pageable || arena_owner(address) >= 0 || mincore(reinterpret_cast<void*>(begin), page, &resident))
    return Found::no;
  *extent = {begin, page};
  return Found::yes;
}

void KernelMemory::note(const kernels::Result& where) {
  std::lock_guard lock(mutex_);
  if (!noted_) noted_ = where;
}

uintptr_t KernelMemory::allocate(size_t size) {
  CUdeviceptr address = 0;
  return allocate_device(context_->device, size, context_, nullptr, &address) ? 0 : address;
}

void KernelMemory::release(uintptr_t address) {
  if (address) free_device(address);
}

int KernelMemory::device() const {
  return context_->device;
}

bool KernelMemory::attribute(int which, int device, int* value) const {
  return valid_device(device) && device_attribute(which, device, value);
}

void KernelMemory::set_condition(uint64_t handle, uint32_t value) {
  simulate::set_condition(handle, value);
}

bool KernelMemory::texture(uint64_t handle, kernels::Texture* found, std::string* why) {
  return usable_texture(context_, handle, found, why);
}

bool KernelMemory::used(uintptr_t address, size_t size, bool writes) {
  const bool checked = settings().kernel_checks;
  if (checked && !writes && container_ && values::uncomputed().never_written(address, size) && !is_pytorchs(address))
    return false;
  if (checked && writes) values::uncomputed().clear(address, size);
  std::lock_guard lock(mutex_);
  if (!writes) {
    if (!source_) source_ = values::uncomputed().find(address, size);
  } else if (!written_.empty() && written_.back().first + written_.back().second == address) {
    written_.back().second += size;
  } else {
    written_.emplace_back(address, size);
  }
  return true;
}

void KernelMemory::finish() {
  for (const auto& [address, size] : written_) {
    if (source_)
      values::uncomputed().mark(address, size, source_);
    else
      values::uncomputed().clear(address, size);
  }
}

std::string whose(CUcontext context, uintptr_t address) {
  Allocation a;
  if (!address) return "the null pointer";
  if (find_memory(address, &a)) {
    if (a.kind == AllocationKind::mapped)
      return "mapped memory that device " + std::to_string(context->device) + " was given no access to";
    if (a.device >= 0 && a.device != context->device)
      return "memory of device " + std::to_string(a.device) + ", which device " + std::to_string(context->device) +
             " has no access to";
    return "over the end of a block of " + std::to_string(a.size) + " bytes";
  }
  const int physical = arena_owner(address);
  if (physical < 0) return "the host's memory, or nobody's";
  std::string of = "memory of device " + std::to_string(ordinal_of(physical));
  if (block_before(address, &a))
    return of + ", " + std::to_string(address - a.base - a.size) + " bytes behind a block of " + std::to_string(a.size);
  return of + " that is freed or was never given out";
}

bool block_before(uintptr_t address, Allocation* block) {
  constexpr uintptr_t kNear = 1 << 16;
  for (uintptr_t at = address & ~(kGrain - 1); at > address - kNear; at -= kGrain)
    if (find_memory(at, block)) return true;
  return false;
}

}  // namespace devtrace::simulate
