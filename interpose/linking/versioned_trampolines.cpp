// The trampolines before the hooks of the CUDA runtime's functions. One for each version under which a function may be
// linked, and one for each slot of a runtime in which it may have been looked up. An entry goes on to the hook at once,
// or, unless it is settled that there is only one runtime, notes which one is meant (runtimes.cpp).
//
// The versions' are exported as cudaMalloc@libcudart.so.12; what is linked without a version gets the hook itself.

// The first entry of a function has the size of all, so that each is known by the function's name.
// clang-format off
#define VERSION(number, name) "  versioned \\symbol, " #number ", " #name "\n"
#define HOOK(library, symbol) "trampolines " library ", " #symbol "\n"
__asm__(
#ifdef __x86_64__
    R"(
.macro entry symbol, number
  .balign 32
entry_\number\()_\symbol:
  cmpb $0, devtrace_settled+\number(%rip)
  jne \symbol
  movl $\number, %r11d
  leaq \symbol(%rip), %r10
  jmp devtrace_chosen
.endm
)"
#else
    R"(
.macro entry symbol, number
  .balign 32
entry_\number\()_\symbol:
  adrp x16, devtrace_settled+\number
  ldrb w16, [x16, :lo12:devtrace_settled+\number]
  cbz w16, 2f
1:
  b \symbol
2:
  mov w16, #\number
  adr x17, 1b
  b devtrace_chosen
.endm
)"
#endif
    R"(
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

)"
#ifdef __x86_64__
R"(
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
)"
#else
R"(
// w16 the entry's number, x17 what jumps to the hook; the rest as above.
.type devtrace_chosen, @function
devtrace_chosen:
  .cfi_startproc
  mrs x9, tpidr_el0
  adrp x10, :gottprel:devtrace_choice
  ldr x10, [x10, :gottprel_lo12:devtrace_choice]
  add x9, x9, x10
  str x30, [x9]
  str w16, [x9, #8]
  adrp x10, devtrace_several
  ldrb w10, [x10, :lo12:devtrace_several]
  cbz w10, 1f
  br x17
1:
  stp x29, x30, [sp, #-96]!
  .cfi_def_cfa_offset 96
  .cfi_offset x29, -96
  .cfi_offset x30, -88
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp x8, x17, [sp, #80]
  mov w0, w16
  bl devtrace_settle
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp x8, x17, [sp, #80]
  ldp x29, x30, [sp], #96
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  br x17
  .cfi_endproc
)"
#endif
R"(
.size devtrace_chosen, . - devtrace_chosen
.popsection
)");
