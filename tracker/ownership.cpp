#include "tracker/ownership.h"

#include <sys/mman.h>

#include "tracker/extent_map.h"
#include "tracker/host_memory.h"

namespace devtrace::ownership {

namespace detail {
constinit std::atomic<std::atomic<uint8_t>*> chunks{nullptr};
}

namespace {

constinit ExtentMap<Extent> extents;

// Without memory for the table every address is unknown, and nothing is found.
std::atomic<uint8_t>* table() {
  std::atomic<uint8_t>* chunks = detail::chunks.load(std::memory_order_acquire);
  if (chunks) return chunks;
  void* memory = ::mmap(nullptr, kChunks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, kChunks, MADV_DONTDUMP);
  auto* made = static_cast<std::atomic<uint8_t>*>(memory);
  if (detail::chunks.compare_exchange_strong(chunks, made, std::memory_order_acq_rel)) return made;
  ::munmap(memory, kChunks);  // another thread was faster
  return chunks;
}

}  // namespace

// A chunk keeps its last owner after the memory has gone: memory of the same device most likely comes next, and what
// the table makes suspicious is looked at exactly.
void add(const Extent& extent) {
  if (extent.bytes == 0 || (extent.address + extent.bytes - 1) >> kAddressBits) return;
  extents.put(extent);
  if (extent.memory != Memory::device || !extent.device.is_cuda() || extent.device.index >= kDevices) return;
  std::atomic<uint8_t>* const chunks = table();
  if (!chunks) return;
  const auto owner = static_cast<uint8_t>(extent.device.index + 1);
  const size_t last = (extent.address + extent.bytes - 1) >> kChunkBits;
  for (size_t chunk = extent.address >> kChunkBits; chunk <= last; ++chunk)
    chunks[chunk].store(owner, std::memory_order_relaxed);
}

bool remove(uintptr_t address) {
  Extent extent;
  if (!extents.take(address, extent)) return false;
  if (extent.memory != Memory::device) host_memory::forget_harmless();
  return true;
}

std::optional<Extent> find(uintptr_t address) {
  Extent extent;
  if (extents.around(address, extent)) return extent;
  return std::nullopt;
}

void before_fork() {
  extents.lock();
}

void after_fork() {
  extents.unlock();
}

}  // namespace devtrace::ownership
