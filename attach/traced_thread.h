// One thread of another process, stopped by ptrace for as long as this object lives, and made to call functions. The
// others run on. Whoever kills this process at any instant leaves the thread as it was. It is sent into a function only
// above a signal frame, from which the kernel puts back registers, mask and an interrupted system call.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "attach/safe_point.h"
#include "attach/signal_frame.h"

namespace devtrace::attach {

// Of the target's C library.
struct Instructions {
  uintptr_t system_call = 0;  // `syscall`, and then `ret`
  uintptr_t restorer = 0;     // those that call rt_sigreturn
};

class TracedThread {
 public:
  TracedThread(pid_t process, pid_t thread, const process::RemoteMemory& memory, const Instructions& instructions)
      : process_(process), thread_(thread), memory_(memory), instructions_(instructions) {}
  ~TracedThread();
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  // 0: it stands still. EPERM: ptrace is not allowed. ESRCH: it has ended. EAGAIN: it did not stop in time, or for
  // another reason: another thread, or later.
  int stop();

  bool is_safe(const UnsafeCode& unsafe) const;

  // Once, before it is made to call anything. False: it stands on a stack that is not the thread's own (a coroutine's,
  // of a length that nobody knows), or there is too little left of it.
  bool borrow();

  // The result of a system call, negative: -errno. Nothing: the thread could not be made to.
  std::optional<long> system_call(long number, std::initializer_list<uint64_t> arguments);

  // Runs a function to its end, on a stack that ends at `top`. False: it could not be made to, or has not come back: it
  // runs on then, and the kernel puts the thread back when it does.
  bool call(uintptr_t function, uintptr_t top, std::initializer_list<uint64_t> arguments);

  // Lets go of threads that could not be stopped in time and have stopped since.
  static void release_late();
  static bool is_late(pid_t thread);  // still seized: it may not be again

 private:
  enum class Stop { none, event, entry, exit };  // event: not of a system call's

  bool wait_for_stop(std::chrono::milliseconds limit, int& status) const;
  bool go_to(const user_regs_struct& registers);
  bool next_system_call(user_regs_struct& after);
  bool run_to_return(uintptr_t returned);
  void put_back();
  void put_back_at_once();
  void give_back();

  pid_t process_, thread_;
  const process::RemoteMemory& memory_;
  const Instructions& instructions_;
  Stop at_ = Stop::none;
  bool seized_ = false, away_ = false;  // away: not where it was stopped
  int pending_signal_ = 0;
  ThreadState before_;
  SignalFrame frame_;          // on its own stack
  std::vector<char> beneath_;  // what stood in that place
};

}  // namespace devtrace::attach
