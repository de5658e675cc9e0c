// Device memory: host memory at addresses whose device is one comparison away.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "simulate/model/memory/host_memory.h"

namespace devtrace::simulate {

constexpr size_t kChunk = 2 << 20;  // device pages: an aligned 2 MiB of addresses has one owner
constexpr size_t kGrain = 512;      // small blocks begin at multiples of it, as the driver's do

// First fit over free ranges of [0, size). Not thread safe.
class Ranges {
 public:
  void add(size_t offset, size_t size);
  // Offset of `size` free bytes at a multiple of `alignment`, or SIZE_MAX.
  size_t take(size_t size, size_t alignment);
  // Whether [offset, offset+size) was free and is now taken.
  bool take_at(size_t offset, size_t size);
  // Whether [offset, offset+size) is free as a whole.
  bool is_free(size_t offset, size_t size) const;

 private:
  std::map<size_t, size_t> free_;  // offset → size, coalesced
};

// One device's memory: a reserved address range over a sparse file in memory, so that other processes (IPC) and other
// addresses (virtual memory management) can map the same bytes.
class Arena {
 public:
  // Reserves addresses at `base`; nothing is committed. `addresses`: their bytes; `capacity`: those that the device
  // has. Multiples of kChunk.
  bool open(uintptr_t base, size_t addresses, size_t capacity);

  // An address for `size` bytes, 512-byte aligned like the driver's; 0 when the device's memory is used up.
  uintptr_t allocate(size_t size);
  void release(uintptr_t address, size_t size);

  // Physical memory without an address, for virtual memory management: an offset into file(), or SIZE_MAX.
  size_t allocate_physical(size_t size);
  void release_physical(size_t offset, size_t size);

  uintptr_t base() const { return base_; }
  size_t capacity() const { return capacity_; }
  size_t used() const { return used_; }
  // In blocks of large_block() or more, as that is now; it is a power of two.
  size_t in_large_blocks() const;
  // Makes these bytes zero, as fresh ones are: whole pages are given back to the host.
  void clear(uintptr_t address, size_t size);
  // Bytes that the host has behind it by now.
  size_t touched() const;
  int file() const { return file_; }

 private:
  bool claim_chunks(size_t offset, size_t size);
  void use(size_t size);
  void drop_chunks(size_t offset, size_t size);

  mutable std::mutex mutex_;
  uintptr_t base_ = 0;
  size_t capacity_ = 0;
  std::atomic<size_t> used_{0};  // whole chunks
  // By the bits of a block's size: bytes.
  std::array<std::atomic<size_t>, 64> blocks_{};
  std::atomic<size_t>& of_size(size_t size) { return blocks_[static_cast<size_t>(std::bit_width(size))]; }
  int file_ = -1;
  Ranges large_;     // chunks
  Ranges small_;     // inside the chunks given to small allocations
  Ranges physical_;  // the file behind the addresses
};

// Reserves the arenas of all devices in one range. False: the host has no such address space.
bool reserve_arenas(int devices, size_t capacity);
// Bytes of addresses that it takes.
size_t address_space(int devices, size_t capacity);
// What all of them have of the host's memory.
HostUse host_use();
// The device (by physical index) whose arena holds the address, or -1.
int arena_owner(uintptr_t address);
Arena& arena(int device);
// Makes device memory zero in a way that needs none of the host's. False: too few bytes for that, or no device's.
bool cleared(uintptr_t address, size_t size);
// Opens another process's arena file by its path under /proc; -1 when that process is gone or not ours.
int open_shared(const char* path);

}  // namespace devtrace::simulate
