#include "tracker/memory/untracked_memory.h"

#include <atomic>

#include "tracker/interface/platform.h"

namespace devtrace::memory::untracked_memory {
namespace {

// A kernel may be given numbers that look like addresses, other ones at each launch. After so many answers of
// "nobody's" no more is asked.
constexpr int kMostInVain = 1 << 16;
constinit std::atomic<int> in_vain{0};

}  // namespace

void learn(uintptr_t address, unsigned& questions) {
  if (!memory::ownership::never_asked(address)) return;
  if (in_vain.load(std::memory_order_relaxed) >= kMostInVain) return memory::ownership::nobodys(address);
  if (questions == 0 || !platform().memory_at) return;
  --questions;
  memory::ownership::Extent extent;
  switch (platform().memory_at(address, extent)) {
    case Platform::Answer::known:
      extent.queried = true;
      memory::ownership::add(extent);
      break;
    case Platform::Answer::nobodys:
      in_vain.fetch_add(1, std::memory_order_relaxed);
      memory::ownership::nobodys(address);
      break;
    case Platform::Answer::none:  // CUDA is not in use yet, or no more: another launch will ask
      break;
  }
}

Device owner_now(uintptr_t address, const memory::ownership::Extent& known, Device here) {
  if (!platform().memory_at || (!known.queried && known.device == here)) return known.device;
  memory::ownership::Extent now;
  const bool answered = platform().memory_at(address, now) == Platform::Answer::known;
  if (answered && now.memory == known.memory && now.device == known.device) return known.device;
  if (known.queried) {
    memory::ownership::remove(known.address);
    return {};
  }
  if (!answered || now.memory != memory::ownership::Memory::device) return known.device;
  memory::ownership::remove(known.address);
  memory::ownership::add(now);
  return now.device;
}

}  // namespace devtrace::memory::untracked_memory
