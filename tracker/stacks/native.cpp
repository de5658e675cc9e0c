// Native return addresses, by libunwind: its per-thread cache makes a frame known from before cost some nanoseconds.
#include "tracker/stacks/native.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "tracker/stacks/debug_lines.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {
namespace {

// libunwind has locks of its own, out of our reach: a fork while another thread holds one would leave it locked in the
// child for ever. So a fork waits until nobody is inside, and while it happens nobody enters.
constinit std::atomic<int> inside{0};
constinit std::atomic<bool> forking{false};
constinit pid_t forking_process = 0;

// A thread of the program's that is cancelled is unwound by libgcc_s, which asks the copy of libgcc in this library
// about our hooks' frames. That copy aborts unless it has unwound something itself before.
[[gnu::constructor]] void prepare_unwinder() {
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

}  // namespace

size_t capture_native(void** addresses, size_t capacity, size_t skip) {
  constexpr size_t kLargest = 256;
  const int saved = errno;
  size_t count = 0;
  inside.fetch_add(1);
  if (!forking.load()) {
    void* all[kLargest];
    // The first address lies in this function, and is left out as well.
    const size_t wanted = std::min(capacity + skip + 1, kLargest);
    const int found = unw_backtrace(all, static_cast<int>(wanted));
    for (size_t i = skip + 1; found > 0 && i < static_cast<size_t>(found); ++i) addresses[count++] = all[i];
  }
  inside.fetch_sub(1);
  errno = saved;
  return count;
}

void before_fork_native() {
  before_fork_lines();
  constexpr int kPatience = 1000;  // a thread may be suspended inside for good (a debugger): then fork all the same
  forking.store(true);
  forking_process = getpid();
  for (int i = 0; inside.load() != 0 && i < kPatience; ++i) {
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
}

void after_fork_native() {
  if (getpid() != forking_process) inside.store(0);  // whoever was inside is not in the child
  forking.store(false);
  after_fork_lines();
}

}  // namespace devtrace::stacks
