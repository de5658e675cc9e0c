#include "tracker/copy_times.h"

#include <atomic>
#include <mutex>

#include "tracker/spinlock.h"

namespace devtrace::copy_times {
namespace {

struct Expected {
  std::atomic<uint32_t> number;  // 0: empty
  std::atomic<uint64_t> site;
};
constexpr uint32_t kExpected = 1 << 15;
constinit Expected expected[kExpected] = {};

// Records come in whole buffers, on one thread at a time: a lock and a map will do. Leaked: they may come after static
// destructors.
SpinLock lock;
std::unordered_map<uint64_t, Total>* sums = nullptr;

}  // namespace

void expect(uint32_t number, uint64_t site) {
  Expected& place = expected[number % kExpected];
  place.number.store(0, std::memory_order_relaxed);  // whoever reads meanwhile finds nothing
  place.site.store(site, std::memory_order_release);
  place.number.store(number, std::memory_order_release);
}

void took(uint32_t number, uint64_t bytes, uint64_t nanoseconds) {
  Expected& place = expected[number % kExpected];
  if (number == 0 || place.number.load(std::memory_order_acquire) != number) return;
  const uint64_t site = place.site.load(std::memory_order_acquire);
  if (place.number.load(std::memory_order_acquire) != number) return;
  const std::lock_guard hold(lock);
  if (!sums) sums = new std::unordered_map<uint64_t, Total>;
  Total& total = (*sums)[site];
  ++total.copies;
  total.bytes += bytes;
  total.nanoseconds += nanoseconds;
}

std::unordered_map<uint64_t, Total> totals() {
  const std::lock_guard hold(lock);
  return sums ? *sums : std::unordered_map<uint64_t, Total>{};
}

void clear() {
  for (Expected& place : expected)
    if (place.number.load(std::memory_order_relaxed) != 0) place.number.store(0, std::memory_order_relaxed);
  if (!lock.try_lock()) sums = nullptr;  // a thread that is not in the child holds it, and may have left it half done
  delete sums;
  sums = nullptr;
  lock.unlock();
}

}  // namespace devtrace::copy_times
