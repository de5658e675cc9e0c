#include "tracker/base/process_start.h"

#include <time.h>

#include <atomic>

namespace devtrace::process_start {
namespace {
double started = 0;
std::atomic<double> attached_at{0};
}  // namespace

double now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const auto microseconds = time.tv_nsec / 1000;
  return static_cast<double>(time.tv_sec) + static_cast<double>(microseconds) * 1e-6;
}

void note() {
  started = now();
}
void note_attached() {
  attached_at.store(now());
}
double attached() {
  return attached_at.load(std::memory_order_relaxed);
}
double time() {
  return started;
}

}  // namespace devtrace::process_start
