#include "tracker/memory/host_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tracker/memory/ownership.h"

namespace devtrace::memory::host_memory {
namespace {

constexpr unsigned kPageBits = 12;
constexpr uintptr_t kLow = uintptr_t{1} << 32;  // below, numbers are common, and memory is that of old-style programs

// Shared by all threads: read at launches, written when there is something to remember, which is soon everything.
constexpr unsigned kRememberedBits = 10;
constinit std::atomic<uintptr_t> harmless[1 << kRememberedBits]{};

// Most words that are no addresses are two numbers of 32 bits, such as sizes and strides: pages that differ in their
// high bits alone. In one place they would drive one another out, and be looked at closely at every launch.
std::atomic<uintptr_t>& place_of(uintptr_t page) {
  return harmless[page * 0x9E3779B97F4A7C15u >> (64 - kRememberedBits)];
}

// Programs that are not position-independent have their heap behind themselves, low in memory.
bool in_low_heap(uintptr_t word) {
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0));
  return end < kLow && word < end;
}

}  // namespace

bool detail::possible(uintptr_t word) {
  if (word < kLow && !in_low_heap(word)) return false;
  const uintptr_t page = word >> kPageBits;
  return place_of(page).load(std::memory_order_relaxed) != page;
}

void remember_harmless(uintptr_t word) {
  const uintptr_t page = word >> kPageBits;
  place_of(page).store(page, std::memory_order_relaxed);
}

void forget_harmless() {
  for (std::atomic<uintptr_t>& page : harmless) page.store(0, std::memory_order_relaxed);
}

// Memory of devices that is mapped for the driver's own use, and reserved addresses, are not read by the kernel.
bool readable(uintptr_t address) {
  const int saved = errno;
  char byte;
  iovec here{&byte, 1};
  iovec there{reinterpret_cast<void*>(address), 1};
  const bool read = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
  errno = saved;
  return read;
}

}  // namespace devtrace::memory::host_memory
