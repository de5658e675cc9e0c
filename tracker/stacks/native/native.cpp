// Native return addresses: on x86-64 by libunwind, whose per-thread cache makes a frame known from before cost some
// nanoseconds. On arm64 by the frame records that its calling standard has functions keep.
#include "tracker/stacks/native/native.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "tracker/base/processor.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/native/debug_lines.h"
#include "tracker/stacks/native/unwinder_memory.h"
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

// Around a question to libunwind.
class InLibunwind {
 public:
  InLibunwind() { inside.fetch_add(1); }
  ~InLibunwind() {
    inside.fetch_sub(1);
    errno = saved_;
  }
  InLibunwind(const InLibunwind&) = delete;
  InLibunwind& operator=(const InLibunwind&) = delete;

  explicit operator bool() const { return !forking.load(); }

 private:
  const int saved_ = errno;
};

#ifdef __x86_64__
// libunwind's own quick way, outwards from a frame whose own address it leaves out. Below 0: it cannot go all of it.
extern "C" int _ULx86_64_tdep_trace(unw_cursor_t*, void** addresses, int* count);

size_t return_addresses(void** all, size_t wanted) {
  return static_cast<size_t>(std::max(0, unw_backtrace(all, static_cast<int>(wanted))));
}

bool begin_at(const caller::Frame& hook, unw_context_t& context, unw_cursor_t& cursor) {
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(hook.address);
  context.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(hook.stack);
  context.uc_mcontext.gregs[REG_RBP] = static_cast<greg_t>(hook.frame);
  return unw_init_local(&cursor, &context) >= 0;
}

size_t addresses_from_hook(const caller::Frame& hook, void** all, size_t wanted) {
  unw_context_t context;
  unw_cursor_t cursor;
  int count = static_cast<int>(wanted) - 1;
  all[0] = reinterpret_cast<void*>(hook.address);
  if (!begin_at(hook, context, cursor) || _ULx86_64_tdep_trace(&cursor, all + 1, &count) < 0) return 0;
  return static_cast<size_t>(count) + 1;
}

// Of each frame the word with its caller's address, and that with its caller's frame pointer where it has saved it. A
// register that no frame has saved yet is the context's, below all frames.
size_t words_from_hook(const caller::Frame& hook, void* const* addresses, size_t count, StackWord* words, size_t most) {
  unw_context_t context;
  unw_cursor_t cursor;
  if (!begin_at(hook, context, cursor)) return 0;
  size_t found = 0;
  uintptr_t saved_at = 0;
  for (size_t i = 1; i < count; ++i) {
    unw_word_t address = 0;
    unw_save_loc_t caller, frame;
    if (found + 2 > most || unw_step(&cursor) <= 0 || unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 ||
        address != reinterpret_cast<uintptr_t>(addresses[i]) || unw_get_save_loc(&cursor, UNW_REG_IP, &caller) != 0 ||
        unw_get_save_loc(&cursor, UNW_X86_64_RBP, &frame) != 0 || caller.type != UNW_SLT_MEMORY ||
        caller.u.addr < hook.stack)
      return 0;
    for (const unw_save_loc_t* each : {&frame, &caller}) {
      if (each->type != UNW_SLT_MEMORY || each->u.addr < hook.stack || each->u.addr == saved_at) continue;
      const auto* place = reinterpret_cast<const uintptr_t*>(each->u.addr);
      words[found++] = {place, *place};
    }
    saved_at = frame.u.addr;
  }
  return found;
}
#else
size_t addresses_from_hook(const caller::Frame&, void**, size_t) {
  return 0;  // its frames take two loads each as well
}
size_t words_from_hook(const caller::Frame&, void* const*, size_t, StackWord*, size_t) {
  return 0;
}
// What signs return addresses (pointer authentication) has written into their upper bits.
void* without_signature(uintptr_t address) {
  register uintptr_t x30 __asm__("x30") = address;
  __asm__("hint #7" : "+r"(x30));  // xpaclri
  return reinterpret_cast<void*>(x30);
}

// libunwind's quick way follows pointers there without looking whether they can be read. The first address is the
// caller's.
[[gnu::noinline]] size_t return_addresses(void** all, size_t wanted) {
  const auto* record = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  uintptr_t readable_page = reinterpret_cast<uintptr_t>(record) / page_bytes();
  size_t count = 0;
  while (count < wanted && record[1] != 0) {
    all[count++] = without_signature(record[1]);
    const uintptr_t outer = record[0];
    if (outer <= reinterpret_cast<uintptr_t>(record) || outer % 16 != 0) break;
    const uintptr_t page = outer / page_bytes();
    if (page != readable_page && unwinder_syscall(0, 0, reinterpret_cast<const void*>(outer), 0) != 1) break;
    readable_page = page;
    record = reinterpret_cast<const uintptr_t*>(outer);
  }
  return count;
}
#endif

}  // namespace

size_t capture_native_from_hook(const caller::Frame& hook, void** addresses, size_t capacity) {
  const InLibunwind may;
  return may ? addresses_from_hook(hook, addresses, capacity) : 0;
}

size_t deciding_words(const caller::Frame& hook, void* const* addresses, size_t count, StackWord* words, size_t most) {
  const InLibunwind may;
  return may ? words_from_hook(hook, addresses, count, words, most) : 0;
}

size_t capture_native(void** addresses, size_t capacity, size_t skip) {
  constexpr size_t kLargest = 256;
  const InLibunwind may;
  if (!may) return 0;
  void* all[kLargest];
  // The first address lies in this function, and is left out as well.
  const size_t wanted = std::min(capacity + skip + 1, kLargest);
  const size_t found = return_addresses(all, wanted);
  size_t count = 0;
  for (size_t i = skip + 1; i < found; ++i) addresses[count++] = all[i];
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
