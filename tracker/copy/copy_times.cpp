#include "tracker/copy/copy_times.h"

#include <atomic>
#include <mutex>

#include "tracker/base/spinlock.h"

namespace devtrace::copy_times {
namespace {

struct Expected {
  std::atomic<uint32_t> correlation_id;  // 0: empty
  std::atomic<uint32_t> copies;          // of the call, until they are counted
  std::atomic<uint64_t> site;            // 0: none, or several
};
constexpr uint32_t kExpected = 1 << 15;
constinit Expected expected[kExpected] = {};

// Records come in whole buffers, on one thread at a time: a lock and a map will do. Leaked: they may come after static
// destructors.
SpinLock lock;
std::unordered_map<uint64_t, Total>* sums = nullptr;

}  // namespace

void expect(uint32_t correlation_id, uint64_t site) {
  Expected& place = expected[correlation_id % kExpected];
  place.correlation_id.store(0, std::memory_order_relaxed);  // whoever reads meanwhile finds nothing
  place.site.store(site, std::memory_order_release);
  place.copies.store(1, std::memory_order_release);
  place.correlation_id.store(correlation_id, std::memory_order_release);
}

// The call has not begun to copy: nobody tells of its time yet.
void expect_one_of_several(uint32_t correlation_id, uint64_t site) {
  Expected& place = expected[correlation_id % kExpected];
  if (place.correlation_id.load(std::memory_order_relaxed) != correlation_id) return expect(correlation_id, site);
  place.copies.fetch_add(1, std::memory_order_relaxed);
  if (place.site.load(std::memory_order_relaxed) != site) place.site.store(0, std::memory_order_relaxed);
}

void took(uint32_t correlation_id, uint64_t bytes, uint64_t nanoseconds) {
  Expected& place = expected[correlation_id % kExpected];
  if (correlation_id == 0 || place.correlation_id.load(std::memory_order_acquire) != correlation_id) return;
  const uint64_t site = place.site.load(std::memory_order_acquire);
  if (place.correlation_id.load(std::memory_order_acquire) != correlation_id || site == 0) return;
  const std::lock_guard hold(lock);
  if (!sums) sums = new std::unordered_map<uint64_t, Total>;
  Total& total = (*sums)[site];
  total.copies += place.copies.exchange(0, std::memory_order_relaxed);  // of many copies there may be several records
  total.bytes += bytes;
  total.nanoseconds += nanoseconds;
}

std::unordered_map<uint64_t, Total> totals() {
  const std::lock_guard hold(lock);
  return sums ? *sums : std::unordered_map<uint64_t, Total>{};
}

void clear() {
  for (Expected& place : expected)
    if (place.correlation_id.load(std::memory_order_relaxed) != 0)
      place.correlation_id.store(0, std::memory_order_relaxed);
  if (!lock.try_lock()) sums = nullptr;  // a thread that is not in the child holds it, and may have left it half done
  delete sums;
  sums = nullptr;
  lock.unlock();
}

}  // namespace devtrace::copy_times
