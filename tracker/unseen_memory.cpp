#include "tracker/unseen_memory.h"

#include <atomic>

#include "tracker/runtime.h"

namespace devtrace::unseen_memory {
namespace {

// A kernel may be given numbers that look like addresses, other ones at each launch. After so many answers of
// "nobody's" no more is asked.
constexpr int kMostInVain = 1 << 16;
constinit std::atomic<int> in_vain{0};

}  // namespace

void learn(uintptr_t address, unsigned& questions) {
  if (!ownership::never_asked(address)) return;
  if (in_vain.load(std::memory_order_relaxed) >= kMostInVain) return ownership::nobodys(address);
  if (questions == 0 || !runtime().memory_at) return;
  --questions;
  ownership::Extent extent;
  switch (runtime().memory_at(address, extent)) {
    case Runtime::Answer::known:
      extent.asked = true;
      ownership::add(extent);
      break;
    case Runtime::Answer::nobodys:
      in_vain.fetch_add(1, std::memory_order_relaxed);
      ownership::nobodys(address);
      break;
    case Runtime::Answer::none:  // CUDA is not in use yet, or no more: another launch will ask
      break;
  }
}

Device owner_now(uintptr_t address, const ownership::Extent& known, Device here) {
  if (!runtime().memory_at || (!known.asked && known.device == here)) return known.device;
  ownership::Extent now;
  const bool answered = runtime().memory_at(address, now) == Runtime::Answer::known;
  if (answered && now.memory == known.memory && now.device == known.device) return known.device;
  if (known.asked) {
    ownership::remove(known.address);
    return {};
  }
  if (!answered || now.memory != ownership::Memory::device) return known.device;
  ownership::remove(known.address);
  ownership::add(now);
  return now.device;
}

}  // namespace devtrace::unseen_memory
