// Stands between libdevtrace.so and the stubs, so that every original that a hook calls is seen from outside. That is
// how long the log was when the original was entered, and, where the program asks for it, the original not being called
// at all. (A launch that really read another device's memory would leave an error that no later call survives.)
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdint>

extern "C" {

__attribute__((visibility("default"))) long matrix_entered = 0;         // originals entered
__attribute__((visibility("default"))) long matrix_size_at_entry = -1;  // of the log, in bytes, when the last one was
__attribute__((visibility("default"))) int matrix_swallow = 0;          // answer for the original, with success

__attribute__((visibility("hidden"), used)) void* matrix_enter(const char* symbol) {
  static const auto path = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "devtrace_log_path"));
  struct stat facts {};
  matrix_size_at_entry = path && stat(path(), &facts) == 0 ? static_cast<long>(facts.st_size) : 0;
  ++matrix_entered;
  return matrix_swallow ? nullptr : dlsym(RTLD_NEXT, symbol);
}
}

// Jumps on with all arguments as they were; or returns 0, success in the runtime and in the driver.
#define SHIM(symbol)                                                                                     \
  __asm__(".pushsection .text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol               \
          ":\n"                                                                                          \
          "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  sub $8, %rsp\n" \
          "  lea .Lname_" #symbol                                                                        \
          "(%rip), %rdi\n  call matrix_enter\n"                                                          \
          "  add $8, %rsp\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"       \
          "  test %rax, %rax\n  jz 1f\n  jmp *%rax\n1: ret\n"                                            \
          ".size " #symbol ", . - " #symbol                                                              \
          "\n.popsection\n"                                                                              \
          ".pushsection .rodata\n.Lname_" #symbol ": .asciz \"" #symbol "\"\n.popsection\n");
// Every function that launches a kernel, or puts one into a graph: what the table of hooks must have, and what the
// matrix goes through.
#define RUNTIME(symbol)
#define DRIVER(symbol)
#define RUNTIME_LAUNCH(symbol) SHIM(symbol)
#define DRIVER_LAUNCH(symbol) SHIM(symbol)
#include "tests/programs/matrix/functions.inc"
