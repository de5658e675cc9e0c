#include "tracker/kernels.h"

#include <atomic>

#include "tracker/address_map.h"
#include "tracker/ownership.h"
#include "tracker/policy.h"

namespace devtrace::kernels {
namespace {

struct Entry {
  uintptr_t function = 0;
  const Kernel* kernel = nullptr;
  uint64_t key() const { return function; }
};
constinit AddressMap<Entry> entries;
constinit std::atomic<uint32_t> generation{1};  // of all that is known

// A thread launches few kernels many times, and many threads the same ones: each has a small memory of its own, so that
// none waits for another.
constexpr size_t kRemembered = 64;
struct Remembered {
  uintptr_t function;
  const Kernel* kernel;
  uint32_t generation;
};
thread_local constinit Remembered remembered[kRemembered] = {};

// Functions are aligned to 16 bytes, handles come from malloc.
Remembered& place_of(uintptr_t function) {
  return remembered[(function >> 4 ^ function >> 12) % kRemembered];
}

}  // namespace

const Kernel* known(const void* function) {
  const auto key = reinterpret_cast<uintptr_t>(function);
  const uint32_t now = generation.load(std::memory_order_relaxed);
  Remembered& place = place_of(key);
  if (place.function == key && place.generation == now) return place.kernel;
  Entry entry;
  if (!entries.get(key, entry)) return nullptr;
  place = {key, entry.kernel, now};
  return entry.kernel;
}

const Kernel* remember(const void* function, std::string name, const std::vector<Parameter>& parameters,
                       const std::function<bool(size_t)>& reads_address) {
  ownership::prepare();
  auto* kernel = new Kernel;
  kernel->excused = policy::may_reach_other_devices(name);
  kernel->name = std::move(name);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!reads_address && parameters[i].bytes != sizeof(void*)) continue;
    // A pointer is aligned in the block; a parameter that starts unaligned holds none before the next multiple.
    for (size_t at = (8 - parameters[i].offset % 8) % 8; at + 8 <= parameters[i].bytes; at += 8) {
      const size_t in_block = parameters[i].offset + at;
      if (reads_address && !reads_address(in_block)) continue;
      kernel->words.push_back({static_cast<uint16_t>(i), static_cast<uint16_t>(at), static_cast<uint32_t>(in_block)});
    }
  }
  // Two threads that ask at once leave one small object behind.
  const auto key = reinterpret_cast<uintptr_t>(function);
  entries.put({key, kernel});
  return kernel;
}

void forget_all() {
  entries.clear();
  generation.fetch_add(1, std::memory_order_relaxed);
}

void before_fork() {
  entries.lock();
}

void after_fork() {
  entries.unlock();
}

}  // namespace devtrace::kernels
