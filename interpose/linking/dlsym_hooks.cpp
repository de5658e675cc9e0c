// dlsym and dlvsym (Triton, PyTorch's expandable segments): whoever asks for a function that is intercepted gets its
// hook.

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "binary/elf/loaded.h"
#include "binary/elf/plain_text.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/imports/import_slots.h"
#include "interpose/linking/lookup_watch.h"
#include "interpose/linking/named_hooks.h"
#include "tracker/base/assert.h"

using devtrace::interpose::hook_named;
using devtrace::interpose::NamedHook;
using devtrace::interpose::original_address;
namespace cuda_runtimes = devtrace::interpose::cuda_runtimes;

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);
extern "C" {
__attribute__((visibility("hidden"))) Dlsym devtrace_real_dlsym = nullptr;
__attribute__((visibility("hidden"))) Dlvsym devtrace_real_dlvsym = nullptr;
}

static void find_real_functions() {
  using namespace std::string_view_literals;
  if (devtrace_real_dlsym && devtrace_real_dlvsym) return;
  for (const std::string_view library : {"libc.so.6"sv, "libdl.so.2"sv}) {  // before glibc 2.34 they are the latter's
    if (!devtrace_real_dlsym)
      devtrace_real_dlsym = reinterpret_cast<Dlsym>(devtrace::elf::find_in_file(library, "dlsym"));
    if (!devtrace_real_dlvsym)
      devtrace_real_dlvsym = reinterpret_cast<Dlvsym>(devtrace::elf::find_in_file(library, "dlvsym"));
  }
}

static constinit devtrace::interpose::LookupWatch watched[2];
static constinit size_t watches = 0;

void devtrace::interpose::watch_lookup(const LookupWatch& watch) {
  DEVTRACE_ASSERT(watches < std::size(watched));
  watched[watches++] = watch;
}

namespace {

// One look-up that somebody asked for, as far as it can be repeated from here.
struct LookupRequest {
  void* handle;
  const NamedHook& row;
  const char* version;  // null: any
  const void* caller;

  void* in(void* scope) const {
    return version ? devtrace_real_dlvsym(scope, row.symbol.data(), version)
                   : devtrace_real_dlsym(scope, row.symbol.data());
  }
};

// Whether the caller would find the function if this library did not stand before it.
bool there_without_us(const LookupRequest& request) {
  if (request.in(RTLD_NEXT)) return true;
  // RTLD_DEFAULT goes on with what the caller itself was opened with, RTLD_LOCAL or not.
  return request.handle == RTLD_DEFAULT && !devtrace::interpose::there_at_start(request.caller) &&
         original_address(request.row.index);
}

// Whom the loader answers from RTLD_DEFAULT keeps the library of what was found, closed or not. Our own export is
// answered: the library behind it is kept here.
void keep_loaded(const void* original) {
  Dl_info info{};
  if (!original || devtrace::interpose::there_at_start(original)) return;
  if (::dladdr(original, &info) && info.dli_fname) ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// The hook, if that is the answer. `absent`: nothing is, as it would be without this library's exports. A library that
// came late stands before nobody, so nothing is absent because of it.
void* resolve(const LookupRequest& request, bool& absent) {
  const char* const name = request.row.symbol.data();
  const bool late = devtrace::interpose::loaded_late();
  if (late && (request.handle == RTLD_NEXT || !devtrace::interpose::import_slots::active())) return nullptr;
  if (request.handle == RTLD_NEXT) {
    // Whoever comes before this library finds it next; the others do not.
    absent = !request.in(RTLD_NEXT) && !devtrace::interpose::defined_before_us(name);
    return nullptr;
  }
  // As seen from here: RTLD_DEFAULT is the only handle that another caller may see differently, and there we come
  // first.
  void* const found = request.in(request.handle);
  if (!found) return nullptr;
  void* const hook = hook_of(request.row);
  if (found != hook && !cuda_runtimes::is_trampoline(found)) {
    // Who has one runtime's function shall never get into another one's.
    void* const entry = devtrace::interpose::of_runtime(request.row.index)
                            ? cuda_runtimes::trampoline_to(request.row.index, found)
                            : nullptr;
    if (found == original_address(request.row.index)) return entry ? entry : hook;
    // Another library's function of the same name is its own affair; CUDA's behind another tool's wrapper is not.
    const bool cudas = entry || found == devtrace::interpose::library_address(request.row.index);
    if (!cudas || is_the_originals(request.caller, request.row)) return nullptr;
    return entry ? entry : hook;
  }
  if (late) return nullptr;
  absent = !there_without_us(request);
  if (!absent && request.handle == RTLD_DEFAULT) keep_loaded(original_address(request.row.index));
  return nullptr;  // our own export: the real function answers, and leaves dlerror as it would
}

}  // namespace

extern "C" {

// The hook, if that is the answer; null: the real dlsym answers, or with a version dlvsym, to `*name`.
__attribute__((visibility("hidden"), used)) void* devtrace_resolve_dlsym(void* handle, const char** name,
                                                                         const char* version, const void* caller) {
  find_real_functions();
  // What is asked first of a library that has just been opened.
  static constinit std::atomic<void*> last{nullptr};
  if (handle != RTLD_DEFAULT && handle != RTLD_NEXT && last.load(std::memory_order_relaxed) != handle) {
    last.store(handle, std::memory_order_relaxed);
    cuda_runtimes::notice();
    devtrace::interpose::import_slots::notice();
  }
  for (size_t i = 0; *name && i < watches; ++i)
    if (devtrace::elf::plain_same(*name, watched[i].name)) watched[i].asked();
  const NamedHook* const row = *name ? hook_named(*name) : nullptr;
  if (!row) return nullptr;
  const int saved = errno;
  bool absent = false;
  void* const answer = resolve({handle, *row, version, caller}, absent);
  if (absent) *name = row->absent;
  errno = saved;
  return answer;
}

// RTLD_NEXT and RTLD_DEFAULT mean something else for every caller: the real functions must see the caller's return
// address, so they are jumped to, not called.
DEVTRACE_EXPORT void* dlsym(void* handle, const char* name) noexcept;
DEVTRACE_EXPORT void* dlvsym(void* handle, const char* name, const char* version) noexcept;
#ifdef __x86_64__
#define NO_VERSION "  xor %edx, %edx\n"
#define LOOK_UP(function, real, set_version)     \
  __asm__(                                       \
      ".pushsection .text\n"                     \
      ".globl " function                         \
      "\n"                                       \
      ".type " function ", @function\n" function \
      ":\n"                                      \
      "  .cfi_startproc\n"                       \
      "  push %rdi\n"                            \
      "  .cfi_adjust_cfa_offset 8\n"             \
      "  push %rdx\n"                            \
      "  .cfi_adjust_cfa_offset 8\n"             \
      "  push %rsi\n"                            \
      "  .cfi_adjust_cfa_offset 8\n"             \
      "  mov %rsp, %rsi\n"                       \
      "  mov 24(%rsp), %rcx\n" set_version       \
      "  call devtrace_resolve_dlsym\n"          \
      "  pop %rsi\n"                             \
      "  .cfi_adjust_cfa_offset -8\n"            \
      "  pop %rdx\n"                             \
      "  .cfi_adjust_cfa_offset -8\n"            \
      "  pop %rdi\n"                             \
      "  .cfi_adjust_cfa_offset -8\n"            \
      "  test %rax, %rax\n"                      \
      "  jz 1f\n"                                \
      "  ret\n"                                  \
      "1:\n"                                     \
      "  jmp *" real                             \
      "(%rip)\n"                                 \
      "  .cfi_endproc\n"                         \
      ".size " function ", . - " function        \
      "\n"                                       \
      ".popsection\n")
#else
#define NO_VERSION "  mov x2, xzr\n"
#define LOOK_UP(function, real, set_version)     \
  __asm__(                                       \
      ".pushsection .text\n"                     \
      ".globl " function                         \
      "\n"                                       \
      ".type " function ", @function\n" function \
      ":\n"                                      \
      "  .cfi_startproc\n"                       \
      "  stp x29, x30, [sp, #-48]!\n"            \
      "  .cfi_def_cfa_offset 48\n"               \
      "  .cfi_offset x29, -48\n"                 \
      "  .cfi_offset x30, -40\n"                 \
      "  mov x29, sp\n"                          \
      "  stp x1, x2, [sp, #16]\n"                \
      "  str x0, [sp, #32]\n"                    \
      "  add x1, sp, #16\n"                      \
      "  mov x3, x30\n" set_version              \
      "  bl devtrace_resolve_dlsym\n"            \
      "  mov x9, x0\n"                           \
      "  ldp x1, x2, [sp, #16]\n"                \
      "  ldr x0, [sp, #32]\n"                    \
      "  ldp x29, x30, [sp], #48\n"              \
      "  .cfi_restore x30\n"                     \
      "  .cfi_restore x29\n"                     \
      "  .cfi_def_cfa_offset 0\n"                \
      "  cbz x9, 1f\n"                           \
      "  mov x0, x9\n"                           \
      "  ret\n"                                  \
      "1:\n"                                     \
      "  adrp x16, " real                        \
      "\n"                                       \
      "  ldr x16, [x16, :lo12:" real             \
      "]\n"                                      \
      "  br x16\n"                               \
      "  .cfi_endproc\n"                         \
      ".size " function ", . - " function        \
      "\n"                                       \
      ".popsection\n")
#endif
// Each in the place of every version of it that the C library has had.
#define UNVERSIONED(symbol) __asm__(".symver " #symbol ", " #symbol "@@")
UNVERSIONED(dlsym);
UNVERSIONED(dlvsym);
LOOK_UP("dlsym", "devtrace_real_dlsym", NO_VERSION);
LOOK_UP("dlvsym", "devtrace_real_dlvsym", "");
}
