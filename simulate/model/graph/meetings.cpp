#include "simulate/model/graph/meetings.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

namespace devtrace::simulate {
namespace {

struct Meeting {
  int (*ready)(void*);
  void (*compute)(void*);
  std::shared_ptr<void> data;
};

std::mutex mutex;
std::atomic<bool> g_recording{false};

// By their numbers. Never destroyed: a replay may come until the process ends.
std::deque<Meeting>& meetings() {
  static auto* const all = new std::deque<Meeting>;
  return *all;
}

}  // namespace

void keep_meeting(Operation& operation) {
  if (!operation.ready || !g_recording) return;
  std::lock_guard lock(mutex);
  meetings().push_back({operation.ready, operation.compute, operation.compute_data});
  operation.ready = nullptr;
  operation.compute = [](void*) {};
}

}  // namespace devtrace::simulate

// For values/python/graphs.py.
extern "C" {
__attribute__((visibility("default"))) void devtrace_sim_record_meetings(int on) {
  devtrace::simulate::g_recording = on != 0;
}

// How many there are.
__attribute__((visibility("default"))) int devtrace_sim_meetings() {
  std::lock_guard lock(devtrace::simulate::mutex);
  return static_cast<int>(devtrace::simulate::meetings().size());
}

// Waits for the others.
__attribute__((visibility("default"))) void devtrace_sim_meet(int number) {
  devtrace::simulate::Meeting meeting = {};
  {
    std::lock_guard lock(devtrace::simulate::mutex);
    meeting = devtrace::simulate::meetings().at(static_cast<size_t>(number));
  }
  if (!meeting.compute) return;
  meeting.ready(meeting.data.get());
  meeting.compute(meeting.data.get());
}

// The graph is no more.
__attribute__((visibility("default"))) void devtrace_sim_forget_meeting(int number) {
  std::lock_guard lock(devtrace::simulate::mutex);
  devtrace::simulate::meetings().at(static_cast<size_t>(number)) = {};
}
}
