#ifdef __x86_64__  // its instructions; see thread_call.cpp
#include "attach/injected_code.h"

namespace devtrace::attach {
namespace {

constexpr size_t kReply = sizeof InjectedData::reply;
static_assert(offsetof(InjectedData, pthread_self) == 0 && offsetof(InjectedData, pthread_detach) == 8);
static_assert(offsetof(InjectedData, dlopen) == 16 && offsetof(InjectedData, dlsym) == 24);
static_assert(offsetof(InjectedData, dlerror) == 32 && offsetof(InjectedData, munmap) == 40);
static_assert(offsetof(InjectedData, pages) == 48 && offsetof(InjectedData, bytes) == 56);
static_assert(offsetof(InjectedData, function) == 64 && offsetof(InjectedData, arguments) == 72);
static_assert(offsetof(InjectedData, pause) == 96 && offsetof(InjectedData, flags) == 112);
static_assert(offsetof(InjectedData, state) == 116 && offsetof(InjectedData, result) == 120);
static_assert(offsetof(InjectedData, read) == 124 && offsetof(InjectedData, patience) == 128);
static_assert(offsetof(InjectedData, made) == 132 && kMakeThread == 512);
static_assert(offsetof(InjectedData, name) == 136 && offsetof(InjectedData, library) == 200);
static_assert(offsetof(InjectedData, reply) == 200 + 4096 + 8192 && kReply == 4096);

}  // namespace
}  // namespace devtrace::attach

// void* injected(InjectedData*), as the start of a thread. Its end is a jump to munmap, which returns to the C library.
// Behind it void make_thread(…, InjectedData*, pthread_create).
__asm__(R"(
.pushsection .rodata
.globl devtrace_injected_begin
.hidden devtrace_injected_begin
devtrace_injected_begin:
  endbr64
  push %rbx
  mov %rdi, %rbx
  call *(%rbx)
  mov %rax, %rdi
  call *8(%rbx)
  mov 64(%rbx), %rax
  test %rax, %rax
  jnz 1f
  lea 200(%rbx), %rdi
  mov 112(%rbx), %esi
  call *16(%rbx)
  test %rax, %rax
  jz 2f
  mov %rax, %rdi
  lea 136(%rbx), %rsi
  call *24(%rbx)
  test %rax, %rax
  jz 2f
1:
  mov 72(%rbx), %rdi
  mov 80(%rbx), %rsi
  mov 88(%rbx), %rdx
  call *%rax
  mov %eax, 120(%rbx)
  mov $1, %eax
  jmp 5f
2:
  call *32(%rbx)
  test %rax, %rax
  jz 4f
  lea 12488(%rbx), %rdi
  mov $4095, %ecx
3:
  mov (%rax), %dl
  mov %dl, (%rdi)
  inc %rax
  inc %rdi
  test %dl, %dl
  jz 4f
  dec %ecx
  jnz 3b
4:
  mov $2, %eax
5:
  xchg %eax, 116(%rbx)
6:
  cmpl $0, 124(%rbx)
  jne 7f
  decl 128(%rbx)
  jz 7f
  mov $35, %eax
  lea 96(%rbx), %rdi
  xor %esi, %esi
  syscall
  jmp 6b
7:
  mov 48(%rbx), %rdi
  mov 56(%rbx), %rsi
  mov 40(%rbx), %rax
  pop %rbx
  jmp *%rax
.org devtrace_injected_begin + 512, 0x90
  endbr64
  push %rbx
  mov %r8, %rbx
  call *%r9
  mov %eax, 132(%rbx)
  pop %rbx
  ret
.globl devtrace_injected_end
.hidden devtrace_injected_end
devtrace_injected_end:
.popsection
)");
extern "C" const char devtrace_injected_begin[], devtrace_injected_end[];

std::string_view devtrace::attach::injected_code() {
  return {devtrace_injected_begin, static_cast<size_t>(devtrace_injected_end - devtrace_injected_begin)};
}
#endif
