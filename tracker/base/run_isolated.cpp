#include "tracker/base/run_isolated.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tracker/base/thread_state.h"

// work(argument) with the stack pointer at `top`. The frame pointer leads back, and the unwind table says so: a stack
// that is taken further in goes on to the callers.
#ifdef __x86_64__
__asm__(
    ".text\n"
    ".hidden call_on_other_stack\n"
    ".globl call_on_other_stack\n"
    ".type call_on_other_stack, @function\n"
    "call_on_other_stack:\n"
    ".cfi_startproc\n"
    "  endbr64\n"
    "  push %rbp\n"
    ".cfi_def_cfa_offset 16\n"
    ".cfi_offset %rbp, -16\n"
    "  mov %rsp, %rbp\n"
    ".cfi_def_cfa_register %rbp\n"
    "  mov %rdx, %rsp\n"
    "  mov %rdi, %rax\n"
    "  mov %rsi, %rdi\n"
    "  call *%rax\n"
    "  leave\n"
    ".cfi_def_cfa %rsp, 8\n"
    "  ret\n"
    ".cfi_endproc\n"
    ".size call_on_other_stack, .-call_on_other_stack\n");
#else
__asm__(
    ".text\n"
    ".hidden call_on_other_stack\n"
    ".globl call_on_other_stack\n"
    ".type call_on_other_stack, @function\n"
    "call_on_other_stack:\n"
    ".cfi_startproc\n"
    "  hint #34\n"  // bti c
    "  stp x29, x30, [sp, #-16]!\n"
    ".cfi_def_cfa_offset 16\n"
    ".cfi_offset x29, -16\n"
    ".cfi_offset x30, -8\n"
    "  mov x29, sp\n"
    ".cfi_def_cfa_register x29\n"
    "  mov sp, x2\n"
    "  mov x9, x0\n"
    "  mov x0, x1\n"
    "  blr x9\n"
    "  mov sp, x29\n"
    ".cfi_def_cfa_register sp\n"
    "  ldp x29, x30, [sp], #16\n"
    ".cfi_restore x30\n"
    ".cfi_restore x29\n"
    ".cfi_def_cfa_offset 0\n"
    "  ret\n"
    ".cfi_endproc\n"
    ".size call_on_other_stack, .-call_on_other_stack\n");
#endif
extern "C" void call_on_other_stack(void (*work)(const void*), const void* argument, void* top);

namespace devtrace {
namespace {

constexpr size_t kStack = 2u << 20, kGuard = 4096;

constinit std::atomic<void*> spare{nullptr};  // one is kept; it is mapped as far as it was ever used

void* take_stack() {
  if (void* const kept = spare.exchange(nullptr, std::memory_order_acq_rel)) return kept;
  void* const stack =
      ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return nullptr;
  ::mprotect(stack, kGuard, PROT_NONE);
  return stack;
}

void give_back(void* stack) {
  void* none = nullptr;
  if (!spare.compare_exchange_strong(none, stack, std::memory_order_acq_rel)) ::munmap(stack, kStack);
}

class NoHandlers {
 public:
  NoHandlers() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoHandlers() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoHandlers(const NoHandlers&) = delete;
  NoHandlers& operator=(const NoHandlers&) = delete;

 private:
  sigset_t before_;
};

thread_local constinit bool on_ours = false;

}  // namespace

void run_isolated(Stack wanted, void (*work)(const void*), const void* argument) {
  const int saved = errno;
  {
    const NoHandlers no_handlers;  // first: a handler that leaves by siglongjmp runs when all of ours is done
    const ReentrancyGuard inside;
    void* const stack = wanted == Stack::ours && !on_ours ? take_stack() : nullptr;
    if (stack) {
      on_ours = true;
      call_on_other_stack(work, argument, static_cast<char*>(stack) + kStack);
      on_ours = false;
      give_back(stack);
    } else {
      work(argument);
    }
  }
  errno = saved;
}

}  // namespace devtrace
