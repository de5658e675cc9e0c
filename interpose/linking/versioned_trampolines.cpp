// The trampolines before the hooks of the CUDA runtime's functions: one for each version under which a function may be
// linked, and one for each slot of a runtime in which it may have been looked up. An entry goes on to the hook at once,
// or, unless it is settled that there is only one runtime, notes which one is meant (runtimes.cpp).
//
// The versions' are exported as cudaMalloc@libcudart.so.12; what is linked without a version gets the hook itself.

// The first entry of a function has the size of all, so that each is known by the function's name.
// clang-format off
#define VERSION(number, name) "  versioned \\symbol, " #number ", " #name "\n"
#define HOOK(library, symbol) "trampolines " library ", " #symbol "\n"
__asm__(R"(
.macro entry symbol, number
  .balign 32
entry_\number\()_\symbol:
  cmpb $0, devtrace_settled+\number(%rip)
  jne \symbol
  movl $\number, %r11d
  leaq \symbol(%rip), %r10
  jmp devtrace_chosen
.endm
.macro slot symbol, number
  entry \symbol, \number
  .pushsection .data.rel.ro, "aw"
  .quad entry_\number\()_\symbol
  .popsection
.endm
.macro versioned symbol, number, name
  entry \symbol, \number
  .globl entry_\number\()_\symbol
  .type entry_\number\()_\symbol, @function
  .symver entry_\number\()_\symbol, \symbol@\name
.endm
.macro trampolines library, symbol
.ifc \library,libcudart.so
)"
#include "interpose/linking/cudart_versions.inc"
R"(
  slot \symbol, 0
  slot \symbol, 1
  slot \symbol, 2
  slot \symbol, 3
  .size entry_4_\symbol, . - entry_4_\symbol
.endif
.endm

.pushsection .data.rel.ro, "aw"
.balign 8
.globl devtrace_slot_trampolines
.hidden devtrace_slot_trampolines
devtrace_slot_trampolines:
.popsection

.pushsection .text
.globl devtrace_trampolines_begin
.hidden devtrace_trampolines_begin
.balign 32
devtrace_trampolines_begin:
)"
#include "interpose/linking/hooks.inc"
R"(
.globl devtrace_trampolines_end
.hidden devtrace_trampolines_end
devtrace_trampolines_end:

// %r11d the entry's number, %r10 the hook. As long as nobody knows of several runtimes the entry asks; functions of
// CUDA's take no floating-point arguments.
.type devtrace_chosen, @function
devtrace_chosen:
  .cfi_startproc
  movq devtrace_choice@gottpoff(%rip), %rax
  movl %r11d, %fs:8(%rax)
  movq (%rsp), %r11
  movq %r11, %fs:(%rax)
  cmpb $0, devtrace_several(%rip)
  je 1f
  jmp *%r10
1:
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  push %rdx
  .cfi_adjust_cfa_offset 8
  push %rcx
  .cfi_adjust_cfa_offset 8
  push %r8
  .cfi_adjust_cfa_offset 8
  push %r9
  .cfi_adjust_cfa_offset 8
  push %r10
  .cfi_adjust_cfa_offset 8
  movl %fs:8(%rax), %edi
  call devtrace_settle
  pop %r10
  .cfi_adjust_cfa_offset -8
  pop %r9
  .cfi_adjust_cfa_offset -8
  pop %r8
  .cfi_adjust_cfa_offset -8
  pop %rcx
  .cfi_adjust_cfa_offset -8
  pop %rdx
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%r10
  .cfi_endproc
.size devtrace_chosen, . - devtrace_chosen
.popsection
)");
