// One thread of another process, stopped by ptrace for as long as this object lives, and made to call functions. Its
// registers, its signal mask and its interrupted system call are as before afterwards. The others run on.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "attach/process/remote_memory.h"
#include "attach/safe_point.h"

namespace devtrace::attach {

class TracedThread {
 public:
  explicit TracedThread(pid_t thread) : thread_(thread) {}
  ~TracedThread();
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  // 0: it stands still. EPERM: ptrace is not allowed. ESRCH: it has ended. EAGAIN: it did not stop in time, or for
  // another reason: another thread, or later.
  int stop();

  bool is_safe(const RemoteMemory& memory, const UnsafeCode& unsafe) const;

  // Once, before it is made to call anything: no handler of the program's runs on it. False: it cannot be.
  bool borrow();

  // The result of a system call, by the instruction `syscall` at that address, negative: -errno. Nothing: the thread
  // could not be made to.
  std::optional<long> system_call(uintptr_t instruction, long number, std::initializer_list<uint64_t> arguments);

  // The result of a function. It returns to `trap`, where a breakpoint instruction lies.
  std::optional<uint64_t> call(const RemoteMemory& memory, uintptr_t function, uintptr_t trap,
                               std::initializer_list<uint64_t> arguments);

 private:
  bool wait_for_stop(std::chrono::milliseconds limit, int& status) const;
  bool run_until(uintptr_t instruction, bool one_step, const user_regs_struct& with, user_regs_struct& after);
  void give_back();

  pid_t thread_;
  bool seized_ = false, stopped_ = false, borrowed_ = false;
  int pending_signal_ = 0;
  user_regs_struct before_{};
  std::vector<char> extended_before_;  // of the vector and floating-point units
  uint64_t mask_before_ = 0;
};

}  // namespace devtrace::attach
