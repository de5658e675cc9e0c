#include "tracker/memory/ownership.h"

#include <sys/mman.h>

#include "tracker/base/assert.h"
#include "tracker/memory/extent_map.h"
#include "tracker/memory/host_memory.h"
#include "tracker/memory/live_memory.h"

namespace devtrace::memory::ownership {

namespace detail {
constinit std::atomic<std::atomic<Devices>*> chunks{nullptr};
}

namespace {

constexpr size_t kTableBytes = kChunks * sizeof(detail::Devices);

constinit ExtentMap<Extent> extents;

// Counts, flags and null pointers are no addresses: nothing lies in the first 4 GiB.
void no_addresses_below_4_gib(std::atomic<detail::Devices>* chunks) {
  for (size_t chunk = 0; chunk < (uint64_t{1} << 32) >> kChunkBits; ++chunk)
    chunks[chunk].store(detail::kNobodys, std::memory_order_relaxed);
}

// Without memory for the table every address is unknown, and nothing is found.
std::atomic<detail::Devices>* table() {
  std::atomic<detail::Devices>* chunks = detail::chunks.load(std::memory_order_acquire);
  if (chunks) return chunks;
  void* memory =
      ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, kTableBytes, MADV_DONTDUMP);
  auto* made = static_cast<std::atomic<detail::Devices>*>(memory);
  no_addresses_below_4_gib(made);
  if (detail::chunks.compare_exchange_strong(chunks, made, std::memory_order_acq_rel)) return made;
  ::munmap(memory, kTableBytes);  // another thread was faster
  return chunks;
}

void count(const Extent& gone) {
  if (gone.memory == Memory::device) memory::live_memory::freed(gone.device, gone.bytes);
}

}  // namespace

// A chunk keeps its last owner after the memory has gone: memory of the same device most likely comes next, and what
// the table makes suspicious is looked at exactly.
void add(const Extent& extent) {
  if (extent.bytes == 0 || (extent.address + extent.bytes - 1) >> kAddressBits) return;
  if (Extent old; extents.put(extent, old)) count(old);
  if (extent.memory == Memory::device) memory::live_memory::allocated(extent.device, extent.bytes);
  const bool of_device = extent.memory == Memory::device && extent.device.is_cuda();
  if (of_device && extent.device.index >= kDevices) return;
  DEVTRACE_ASSERT(!of_device || extent.device.index >= 0);
  std::atomic<detail::Devices>* const chunks = of_device ? table() : detail::chunks.load(std::memory_order_acquire);
  if (!chunks) return;
  const auto owner = of_device ? detail::only(extent.device) : detail::kNobodys;
  const size_t last = (extent.address + extent.bytes - 1) >> kChunkBits;
  // Memory that is every device's shares chunks with others' at its edges: it only answers for those nobody knew.
  for (size_t chunk = extent.address >> kChunkBits; chunk <= last; ++chunk)
    if (of_device || chunks[chunk].load(std::memory_order_relaxed) == detail::kNeverAsked)
      chunks[chunk].store(owner, std::memory_order_relaxed);
}

void prepare() {
  table();
}

bool never_asked(uintptr_t address) {
  std::atomic<detail::Devices>* const chunks = detail::chunks.load(std::memory_order_acquire);
  return chunks && !(address >> kAddressBits) &&
         chunks[address >> kChunkBits].load(std::memory_order_relaxed) == detail::kNeverAsked;
}

void nobodys(uintptr_t address) {
  std::atomic<detail::Devices>* const chunks = detail::chunks.load(std::memory_order_acquire);
  detail::Devices known = detail::kNeverAsked;  // by now another thread may have been given memory there
  if (chunks && !(address >> kAddressBits))
    chunks[address >> kChunkBits].compare_exchange_strong(known, detail::kNobodys, std::memory_order_relaxed);
}

bool remove(uintptr_t address) {
  Extent extent;
  if (!extents.take(address, extent)) return false;
  count(extent);
  if (extent.memory != Memory::device) memory::host_memory::forget_harmless();
  return true;
}

void remove_starting_in(uintptr_t begin, uintptr_t end) {
  extents.take_starting_in(begin, end, count);
}

std::vector<Extent> all() {
  std::vector<Extent> found;
  size_t count = 0;
  // Room first: nothing may be allocated while a lock is held.
  extents.for_each([&](const Extent&) { ++count; });
  found.reserve(count + count / 8 + 64);
  extents.for_each([&](const Extent& extent) {
    if (found.size() < found.capacity()) found.push_back(extent);
  });
  return found;
}

std::optional<Extent> extent_at(uintptr_t address) {
  Extent extent;
  if (extents.around(address, extent)) return extent;
  return std::nullopt;
}

void forget_all() {
  extents.clear();
  memory::live_memory::forget_all();
  std::atomic<detail::Devices>* const chunks = detail::chunks.load(std::memory_order_acquire);
  if (!chunks) return;
  ::madvise(chunks, kTableBytes, MADV_DONTNEED);  // zeroes: kNeverAsked
  no_addresses_below_4_gib(chunks);
}

void before_fork() {
  extents.lock();
}

void after_fork() {
  extents.unlock();
}

}  // namespace devtrace::memory::ownership
