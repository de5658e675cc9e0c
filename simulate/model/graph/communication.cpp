#include "simulate/model/graph/communication.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

namespace devtrace::simulate {
namespace {

struct Communication {
  int (*ready)(void*);
  void (*compute)(void*);
  std::shared_ptr<void> data;
};

std::mutex mutex;
std::atomic<bool> g_recording{false};

// By their numbers. Never destroyed: a replay may come until the process ends.
std::deque<Communication>& communications() {
  static auto* const all = new std::deque<Communication>;
  return *all;
}

}  // namespace

void keep_communication(Operation& operation) {
  if (!operation.ready || !g_recording) return;
  std::lock_guard lock(mutex);
  communications().push_back({operation.ready, operation.compute, operation.compute_data});
  operation.ready = nullptr;
  operation.compute = [](void*) {};
}

}  // namespace devtrace::simulate

// For values/python/graphs.py.
extern "C" {
__attribute__((visibility("default"))) void devtrace_sim_record_communication(int on) {
  devtrace::simulate::g_recording = on != 0;
}

// How many there are.
__attribute__((visibility("default"))) int devtrace_sim_communications() {
  std::lock_guard lock(devtrace::simulate::mutex);
  return static_cast<int>(devtrace::simulate::communications().size());
}

// Waits for the others.
__attribute__((visibility("default"))) void devtrace_sim_communicate(int number) {
  devtrace::simulate::Communication one = {};
  {
    std::lock_guard lock(devtrace::simulate::mutex);
    one = devtrace::simulate::communications().at(static_cast<size_t>(number));
  }
  if (!one.compute) return;
  one.ready(one.data.get());
  one.compute(one.data.get());
}

// The graph is no more.
__attribute__((visibility("default"))) void devtrace_sim_forget_communication(int number) {
  std::lock_guard lock(devtrace::simulate::mutex);
  devtrace::simulate::communications().at(static_cast<size_t>(number)) = {};
}
}
