#include "simulate/model/graph/kept_work.h"

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace devtrace::simulate {
namespace {

std::mutex mutex;
std::atomic<bool> g_recording{false};

// By their numbers. Never destroyed: a replay may come until the process ends.
std::deque<std::function<void()>>& all_work() {
  static auto* const all = new std::deque<std::function<void()>>;
  return *all;
}

void keep(std::function<void()> work) {
  const std::lock_guard lock(mutex);
  all_work().push_back(std::move(work));
}

}  // namespace

void keep_work(Operation& operation) {
  if (!g_recording) return;
  if (operation.ready) {
    keep([ready = operation.ready, compute = operation.compute, data = operation.compute_data] {
      ready(data.get());
      compute(data.get());
    });
    operation.ready = nullptr;
    operation.compute = [](void*) {};
    return;
  }
  const bool copies = operation.type == CU_GRAPH_NODE_TYPE_MEMCPY || operation.type == CU_GRAPH_NODE_TYPE_MEMSET;
  const bool calls = operation.type == CU_GRAPH_NODE_TYPE_HOST;
  const bool launches = operation.type == CU_GRAPH_NODE_TYPE_KERNEL && (!operation.compute || operation.library);
  if (!copies && !calls && !launches) return;
  if (copies ? operation.copies_suppressed : operation.in_operator) return;
  keep([operation] { take_effect(operation); });
  operation.kept = true;
}

}  // namespace devtrace::simulate

// For values/python/graphs.py.
extern "C" {
__attribute__((visibility("default"))) void devtrace_sim_keep_work(int on) {
  devtrace::simulate::g_recording = on != 0;
}

// How much there is.
__attribute__((visibility("default"))) int devtrace_sim_kept_work() {
  const std::lock_guard lock(devtrace::simulate::mutex);
  return static_cast<int>(devtrace::simulate::all_work().size());
}

// May wait for others.
__attribute__((visibility("default"))) void devtrace_sim_do_kept_work(int number) {
  std::function<void()> work;
  {
    const std::lock_guard lock(devtrace::simulate::mutex);
    work = devtrace::simulate::all_work().at(static_cast<size_t>(number));
  }
  if (work) work();
}

// The graph is no more.
__attribute__((visibility("default"))) void devtrace_sim_forget_kept_work(int number) {
  const std::lock_guard lock(devtrace::simulate::mutex);
  devtrace::simulate::all_work().at(static_cast<size_t>(number)) = nullptr;
}
}
