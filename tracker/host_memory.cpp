#include "tracker/host_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tracker/ownership.h"

namespace devtrace::host_memory {
namespace {

constexpr unsigned kPageBits = 12;
constexpr uintptr_t kLow = uintptr_t{1} << 32;  // below, numbers are common, and memory is that of old-style programs
constexpr uintptr_t kFirst = uintptr_t{1} << 22;

// Small: threads have little room for variables of a library that was opened late.
constexpr size_t kRemembered = 16;
struct Harmless {
  uintptr_t pages[kRemembered];
  uint32_t generation;
};
thread_local constinit Harmless harmless{};
constinit std::atomic<uint32_t> generation{1};

// Programs that are not position-independent have their heap behind themselves, low in memory.
bool in_low_heap(uintptr_t word) {
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0));
  return end < kLow && word < end;
}

}  // namespace

bool possible(uintptr_t word) {
  if (word < kFirst || word >> ownership::kAddressBits) return false;
  if (word < kLow && !in_low_heap(word)) return false;
  const uintptr_t page = word >> kPageBits;
  return harmless.pages[page % kRemembered] != page ||
         harmless.generation != generation.load(std::memory_order_relaxed);
}

void remember_harmless(uintptr_t word) {
  const uint32_t now = generation.load(std::memory_order_relaxed);
  if (harmless.generation != now) harmless = {};
  harmless.generation = now;
  const uintptr_t page = word >> kPageBits;
  harmless.pages[page % kRemembered] = page;
}

void forget_harmless() {
  generation.fetch_add(1, std::memory_order_relaxed);
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

}  // namespace devtrace::host_memory
