#include "tracker/base/thread_state.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace devtrace::thread_state {

namespace detail {
thread_local constinit State state;
constinit std::atomic<uint32_t> generation{0};
constinit std::atomic<bool> detached{false};
}  // namespace detail

uint32_t detail::first_id() {
  return state.id = static_cast<uint32_t>(::syscall(SYS_gettid));
}

void forget_after_fork() {
  detail::state.id = 0;
}

void forget_devices() {
  detail::generation.fetch_add(1);
}

void set_detached(bool now) {
  detail::detached.store(now);
}

}  // namespace devtrace::thread_state
