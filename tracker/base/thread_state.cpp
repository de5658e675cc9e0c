#include "tracker/base/thread_state.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tracker/base/assert.h"

namespace devtrace::thread_state {
namespace {

// Plain data, no destructor: hooks still run while a thread's destructors do.
struct State {
  uint32_t id = 0;
  int device = -1;
  int depth = 0;
  uint32_t generation = 0;  // of `device`
};
thread_local constinit State state;
constinit std::atomic<uint32_t> generation{0};
constinit std::atomic<bool> detached{false};

}  // namespace

uint32_t id() {
  if (state.id == 0) state.id = static_cast<uint32_t>(::syscall(SYS_gettid));
  return state.id;
}

void forget_after_fork() {
  state.id = 0;
}

int device() {
  return state.generation == generation.load(std::memory_order_relaxed) ? state.device : -1;
}
void set_device(int ordinal) {
  state.device = ordinal;
  state.generation = generation.load(std::memory_order_relaxed);
}
void forget_devices() {
  generation.fetch_add(1);
}

bool inside() {
  return state.depth != 0 || detached.load(std::memory_order_relaxed);
}
bool entered() {
  return state.depth != 0;
}
void set_detached(bool now) {
  detached.store(now);
}
void enter() {
  ++state.depth;
}
void leave() {
  DEVTRACE_ASSERT(state.depth > 0);
  --state.depth;
}
}  // namespace devtrace::thread_state
