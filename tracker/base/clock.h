// Time stamps for what happens too often for a better clock.
#pragma once

#include <time.h>

#include <cstdint>

namespace devtrace {

// Nanoseconds since the epoch, to the kernel's tick: a quarter of the cost of the exact time.
inline uint64_t now_coarse() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

// The exact time. A C++ program does more in a tick than chooses one device.
inline uint64_t now_exact() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

namespace detail {
inline uint64_t& last_in_order() {  // the calling thread's last time; 0: it has had none
  static thread_local constinit uint64_t last = 0;
  return last;
}
}  // namespace detail

// The calling thread's next time: later than its last one, though both fall within one tick of the coarse clock. What a
// thread did keeps its order. A clock that was set back is followed.
inline uint64_t now_in_order(bool exact) {
  constexpr uint64_t kLongestTick = 20'000'000;  // nanoseconds
  uint64_t& last = detail::last_in_order();
  const uint64_t now = exact ? now_exact() : now_coarse();
  last = last >= now && last - now < kLongestTick ? last + 1 : now;
  return last;
}
// … without a look at the clock: right after its last one, which may be long ago.
inline uint64_t next_in_order() {
  uint64_t& last = detail::last_in_order();
  return last != 0 ? ++last : now_in_order(false);
}

}  // namespace devtrace
