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

}  // namespace devtrace
