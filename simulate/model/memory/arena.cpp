#include "simulate/model/memory/arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "simulate/settings/settings.h"

namespace devtrace::simulate {
namespace {

constexpr size_t kSmall = 1 << 20;  // up to here allocations share chunks

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

// An arena's address space is two to this power: at least a third more than the memory. The driver maps pages where it
// likes, so what is free between blocks is never too scattered for it.
int shift_of(size_t capacity) {
  const int shift = std::bit_width(capacity - 1);
  return capacity > (size_t{1} << shift) / 4 * 3 ? shift + 1 : shift;
}

uintptr_t g_base = 0;
int g_shift = 0;
int g_devices = 0;
Arena* g_arenas = nullptr;

}  // namespace

void Ranges::add(size_t offset, size_t size) {
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      free_.erase(previous);
    }
  }
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, size);
}

size_t Ranges::take(size_t size, size_t alignment) {
  for (auto& [offset, length] : free_) {
    size_t start = round_up(offset, alignment);
    if (start + size <= offset + length && start + size > start) {
      take_at(start, size);
      return start;
    }
  }
  return SIZE_MAX;
}

bool Ranges::is_free(size_t offset, size_t size) const {
  auto it = free_.upper_bound(offset);
  if (it == free_.begin()) return false;
  --it;
  return offset + size <= it->first + it->second;
}

bool Ranges::take_at(size_t offset, size_t size) {
  if (!is_free(offset, size)) return false;
  auto it = std::prev(free_.upper_bound(offset));
  size_t start = it->first, end = it->first + it->second;
  free_.erase(it);
  if (start < offset) free_.emplace(start, offset - start);
  if (offset + size < end) free_.emplace(offset + size, end - offset - size);
  return true;
}

bool Arena::open(uintptr_t base, size_t addresses, size_t capacity) {
  file_ = memfd_create("devtrace-simulated-device", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(addresses + capacity)) != 0) return false;
  // Mapped without access: a pointer to memory that was never allocated, or was freed, faults on the host as it would
  // on the device.
  void* at =
      mmap(reinterpret_cast<void*>(base), addresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0);
  if (at == MAP_FAILED) return false;
  // Hardware does not show device memory to a forked child either, and its writes must not reach the parent's bytes.
  madvise(at, addresses, MADV_DONTFORK);
  base_ = base;
  capacity_ = capacity;
  large_.add(0, addresses);
  physical_.add(addresses, capacity);
  return true;
}

bool Arena::claim_chunks(size_t offset, size_t size) {
  if (mprotect(reinterpret_cast<void*>(base_ + offset), size, PROT_READ | PROT_WRITE) != 0) return false;
  use(size);
  return true;
}

// Under the lock.
void Arena::use(size_t size) {
  used_ += size;
}

void Arena::drop_chunks(size_t offset, size_t size) {
  mprotect(reinterpret_cast<void*>(base_ + offset), size, PROT_NONE);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
  used_ -= size;
}

uintptr_t Arena::allocate(size_t size) {
  std::lock_guard lock(mutex_);
  if (size > capacity_) return 0;
  if (size <= kSmall) {
    size = round_up(size, kGrain);
    size_t offset = small_.take(size, kGrain);
    if (offset == SIZE_MAX) {
      if (used_ + kChunk > capacity_ || !host_gives(kChunk, host_use)) return 0;
      size_t chunk = large_.take(kChunk, kChunk);
      if (chunk == SIZE_MAX || !claim_chunks(chunk, kChunk)) return 0;
      small_.add(chunk, kChunk);
      offset = small_.take(size, kGrain);
    }
    return base_ + offset;
  }
  size = round_up(size, kChunk);
  if (used_ + size > capacity_ || !host_gives(size, host_use)) return 0;
  size_t offset = large_.take(size, kChunk);
  if (offset == SIZE_MAX || !claim_chunks(offset, size)) return 0;
  of_size(size) += size;
  return base_ + offset;
}

void Arena::release(uintptr_t address, size_t size) {
  std::lock_guard lock(mutex_);
  size_t offset = address - base_;
  if (size <= kSmall) {
    size = round_up(size, kGrain);
    small_.add(offset, size);
    // A small allocation may lie across two chunks.
    for (size_t chunk = offset / kChunk * kChunk; chunk < offset + size; chunk += kChunk) {
      if (!small_.take_at(chunk, kChunk)) continue;
      drop_chunks(chunk, kChunk);
      large_.add(chunk, kChunk);
    }
    return;
  }
  size = round_up(size, kChunk);
  drop_chunks(offset, size);
  large_.add(offset, size);
  of_size(size) -= size;
}

void Arena::clear(uintptr_t address, size_t size) {
  const size_t page = static_cast<size_t>(getpagesize());
  const uintptr_t first = round_up(address, page), last = (address + size) / page * page;
  if (first >= last || fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first - base_),
                                 static_cast<off_t>(last - first)) != 0) {
    std::memset(reinterpret_cast<void*>(address), 0, size);
    return;
  }
  std::memset(reinterpret_cast<void*>(address), 0, first - address);
  std::memset(reinterpret_cast<void*>(last), 0, address + size - last);
}

size_t Arena::allocate_physical(size_t size) {
  std::lock_guard lock(mutex_);
  if (size > capacity_ || used_ + size > capacity_ || !host_gives(size, host_use)) return SIZE_MAX;
  size_t offset = physical_.take(size, kChunk);
  if (offset != SIZE_MAX) use(size);
  return offset;
}

void Arena::release_physical(size_t offset, size_t size) {
  std::lock_guard lock(mutex_);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
  physical_.add(offset, size);
  used_ -= size;
}

size_t Arena::in_large_blocks() const {
  size_t all = 0;
  for (size_t bits = static_cast<size_t>(std::bit_width(large_block() - 1)) + 1; bits < blocks_.size(); ++bits)
    all += blocks_[bits];
  return all;
}

size_t Arena::touched() const {
  struct stat facts;
  return file_ >= 0 && fstat(file_, &facts) == 0 ? static_cast<size_t>(facts.st_blocks) * 512 : 0;
}

size_t address_space(int devices, size_t capacity) {
  return (size_t{1} << (shift_of(capacity / kChunk * kChunk))) * static_cast<size_t>(devices) + kChunk;
}

namespace {

void* reserve(uintptr_t wish, size_t bytes) {
  return mmap(reinterpret_cast<void*>(wish), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Valgrind gives low addresses, and there two numbers of a kernel's look like a pointer: its sizes, its strides.
void* reserve_high(size_t bytes) {
  constexpr uintptr_t kLow = uintptr_t{1} << 40, kWish = 0x537'0000'0000;
  void* const at = reserve(0, bytes);
  if (at == MAP_FAILED || reinterpret_cast<uintptr_t>(at) >= kLow) return at;
  void* const higher = reserve(kWish, bytes);
  if (higher == MAP_FAILED) return at;
  munmap(at, bytes);
  return higher;
}

}  // namespace

bool reserve_arenas(int devices, size_t capacity) {
  capacity = capacity / kChunk * kChunk;
  g_shift = shift_of(capacity);
  size_t stride = size_t{1} << g_shift;
  void* at = reserve_high(address_space(devices, capacity));
  if (at == MAP_FAILED) return false;
  g_base = round_up(reinterpret_cast<uintptr_t>(at), kChunk);
  g_arenas = new Arena[static_cast<size_t>(devices)];  // never deleted: used by whatever runs at exit
  for (int i = 0; i < devices; ++i)
    if (!g_arenas[i].open(g_base + stride * static_cast<size_t>(i), stride, capacity)) return false;
  g_devices = devices;
  return true;
}

HostUse host_use() {
  HostUse all;
  for (int i = 0; i < g_devices; ++i) {
    all.given += g_arenas[i].used();
    all.touched += g_arenas[i].touched();
    all.large += g_arenas[i].in_large_blocks();
  }
  return all;
}

int arena_owner(uintptr_t address) {
  uintptr_t index = (address - g_base) >> g_shift;
  return index < static_cast<uintptr_t>(g_devices) ? static_cast<int>(index) : -1;
}

bool cleared(uintptr_t address, size_t size) {
  const int owner = size >= 2 * kChunk ? arena_owner(address) : -1;
  if (owner < 0) return false;
  g_arenas[owner].clear(address, size);
  return true;
}

int open_shared(const char* path) {
  return ::open(path, O_RDWR | O_CLOEXEC);
}

Arena& arena(int device) {
  return g_arenas[device];
}

}  // namespace devtrace::simulate

// For simulate/values/torch.
extern "C" __attribute__((visibility("default"))) bool devtrace_sim_cleared(void* address, size_t size) {
  return devtrace::simulate::cleared(reinterpret_cast<uintptr_t>(address), size);
}
