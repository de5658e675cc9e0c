#include "tracker/base/thread_state.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "tracker/base/assert.h"

namespace devtrace::thread_state {
namespace {

// Plain data, no destructor: hooks still run while a thread's destructors do.
struct State {
  uint32_t id = 0;
  int device = -1;
  int depth = 0;
};
thread_local constinit State state;

}  // namespace

uint32_t id() {
  if (state.id == 0) state.id = static_cast<uint32_t>(::syscall(SYS_gettid));
  return state.id;
}

void forget_after_fork() {
  state.id = 0;
}

int device() {
  return state.device;
}
void set_device(int ordinal) {
  state.device = ordinal;
}

bool inside() {
  return state.depth != 0;
}
void enter() {
  ++state.depth;
}
void leave() {
  DEVTRACE_ASSERT(state.depth > 0);
  --state.depth;
}
}  // namespace devtrace::thread_state
