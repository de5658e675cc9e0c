// What the kernel finds on a stack when a handler of a signal returns: the registers, the vector state and the signal
// mask with which a thread goes on. A thread that is sent into a function above such a frame is put back by the kernel
// when that returns, whether or not somebody is left who traces it.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace devtrace::attach {

// A thread as PTRACE_GETREGSET and PTRACE_GETSIGMASK tell it.
struct ThreadState {
  user_regs_struct registers{};
  std::vector<char> extended;  // NT_X86_XSTATE
  uint64_t mask = 0;

  // It was stopped in a system call that the kernel begins again.
  bool restarts() const;
};

// The frame's first word is where a function returns to; at that word the stack pointer stands when one is entered.
struct SignalFrame {
  uintptr_t address = 0;  // a multiple of 16, and 8: as the processor's convention has the stack at a function's entry
  std::vector<char> bytes;
  uintptr_t returned() const { return address + sizeof(uint64_t); }  // the stack pointer in rt_sigreturn
};

// As high as it fits below `top`. `restorer`: the instructions that call rt_sigreturn. An interrupted system call is
// begun anew by it, with its whole time limit. Empty bytes: this processor's vector state is of an unknown form.
SignalFrame signal_frame(const ThreadState& state, uintptr_t restorer, uintptr_t top);

}  // namespace devtrace::attach
