// The other ways to come by a function: dlsym (Triton, PyTorch's expandable segments), cuGetProcAddress (every CUDA
// runtime, the statically linked ones too), cudaGetDriverEntryPoint. Whoever asks for a function that is intercepted
// gets its hook.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "interpose/cuda_hook.h"
#include "interpose/elf_symbol.h"

using devtrace::interpose::original_address;
using devtrace::interpose::Symbol;

namespace {

struct Row {
  std::string_view symbol;
  Symbol index;
};
constexpr Row kRows[] = {
#define HOOK(library, symbol) {#symbol, Symbol::symbol},
#include "interpose/hooks.inc"
#undef HOOK
};

// CUDA's names are few among the many that dlsym is asked for.
const Row* row_of(std::string_view symbol) {
  if (!symbol.starts_with("cu") && !symbol.starts_with("__cu")) return nullptr;
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.symbol == symbol; });
  return row == std::end(kRows) ? nullptr : row;
}

void* hook_of(const Row& row) {
  static void* const self = [] {
    Dl_info info{};
    ::dladdr(reinterpret_cast<void*>(&hook_of), &info);
    return info.dli_fname ? ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  return self ? devtrace::interpose::real_dlsym(self, row.symbol.data()) : nullptr;
}

// Functions of which several ABIs are hooked, and the CUDA version that brought each. Whoever asks for one by its plain
// name means the newest that its own version knew.
struct Abi {
  std::string_view symbol;
  unsigned since;
};
constexpr Abi kAbis[] = {
#define ABI(symbol, since) {#symbol, since},
#include "interpose/abis.inc"
#undef ABI
};
unsigned since(std::string_view symbol) {
  const auto abi = std::find_if(std::begin(kAbis), std::end(kAbis), [&](const Abi& a) { return a.symbol == symbol; });
  return abi == std::end(kAbis) ? 0 : abi->since;
}

bool cut(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// The hook of the driver's function `name` (without a version), when `found` is what the driver answered to a caller
// that was made for CUDA `version` (12080).
void* hook_of_entry_point(std::string_view name, void* found, unsigned version, bool per_thread) {
  const Row* best = nullptr;
  unsigned best_since = 0;
  bool best_fits = false;
  for (const Row& row : kRows) {
    if (!row.symbol.starts_with(name)) continue;
    std::string_view abi = row.symbol;
    const bool row_per_thread = cut(abi, "_ptsz") || cut(abi, "_ptds");
    std::string_view base = abi;
    if (base != name && !cut(base, "_v2") && !cut(base, "_v3") && !cut(base, "_v4")) continue;
    if (base != name) continue;
    if (original_address(row.index) == found) return hook_of(row);
    // A driver may answer with another address than it exports, for the same function.
    const bool fits = row_per_thread == per_thread;
    const unsigned row_since = since(abi);
    if (row_since > version || row_per_thread > per_thread) continue;
    if (best && (best_fits > fits || (best_fits == fits && best_since > row_since))) continue;
    best = &row;
    best_since = row_since;
    best_fits = fits;
  }
  // It may also answer with a newer ABI that no row knows: what it exports under another name is that name's.
  Dl_info info{};
  if (best && ::dladdr(found, &info) && info.dli_saddr == found && info.dli_sname && best->symbol != info.dli_sname)
    return nullptr;
  return best ? hook_of(*best) : nullptr;
}

void replace(const char* symbol, void** function, unsigned version, unsigned long long flags) {
  constexpr unsigned long long kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !function || !*function) return;
  const int saved = errno;
  if (void* hook = hook_of_entry_point(symbol, *function, version, (flags & kPerThread) != 0)) *function = hook;
  errno = saved;
}

// Whoever names no version gets what the runtime was made for.
unsigned runtime_version() {
  static const unsigned known = [] {
    int version = 0;
    const auto ask =
        reinterpret_cast<int (*)(int*)>(devtrace::interpose::find_in_library("libcudart.so", "cudaRuntimeGetVersion"));
    return ask && ask(&version) == 0 ? static_cast<unsigned>(version) : 0u;
  }();
  return known;
}

}  // namespace

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);
extern "C" {
__attribute__((visibility("hidden"))) Dlsym devtrace_real_dlsym = nullptr;
__attribute__((visibility("hidden"))) Dlvsym devtrace_real_dlvsym = nullptr;
}

static void find_real_functions() {
  if (devtrace_real_dlsym && devtrace_real_dlvsym) return;
  const int saved = errno;
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {  // before glibc 2.34 they are the latter's
    using devtrace::interpose::elf_symbol;
    if (!devtrace_real_dlsym) devtrace_real_dlsym = reinterpret_cast<Dlsym>(elf_symbol(library, "dlsym"));
    if (!devtrace_real_dlvsym) devtrace_real_dlvsym = reinterpret_cast<Dlvsym>(elf_symbol(library, "dlvsym"));
  }
  errno = saved;
}

void* devtrace::interpose::real_dlsym(void* handle, const char* name) {
  find_real_functions();
  return devtrace_real_dlsym(handle, name);
}

extern "C" {

// The hook, if that is the answer; null: the real dlsym answers, or with a version dlvsym, to `*name`.
__attribute__((visibility("hidden"), used)) void* devtrace_dlsym_answer(void* handle, const char** name,
                                                                        const char* version) {
  find_real_functions();
  if (handle == RTLD_NEXT || !*name) return nullptr;
  const Row* const row = row_of(*name);
  if (!row) return nullptr;
  const int saved = errno;
  void* answer = nullptr;
  void* const hook = hook_of(*row);
  void* const original = original_address(row->index);
  // As seen from here: RTLD_DEFAULT is the only handle that another caller may see differently, and there we come
  // first.
  void* const found = version ? devtrace_real_dlvsym(handle, *name, version) : devtrace_real_dlsym(handle, *name);
  if (found == hook && !original)
    *name = "(no CUDA in this process)";  // who asks whether there is CUDA must not take our export for a yes
  else if (found && (found == hook || found == original))
    answer = hook;  // another library's function of the same name is its own affair
  errno = saved;
  return answer;
}

// RTLD_NEXT and RTLD_DEFAULT mean something else for every caller: the real functions must see the caller's return
// address, so they are jumped to, not called.
DEVTRACE_EXPORT void* dlsym(void* handle, const char* name) noexcept;
DEVTRACE_EXPORT void* dlvsym(void* handle, const char* name, const char* version) noexcept;
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
      "  mov %rsp, %rsi\n" set_version           \
      "  call devtrace_dlsym_answer\n"           \
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
LOOK_UP("dlsym", "devtrace_real_dlsym", "  xor %edx, %edx\n");
LOOK_UP("dlvsym", "devtrace_real_dlvsym", "");
}

// ---- CUDA's own
// --------------------------------------------------------------------------------------------------------

DRIVER_HOOK(cuGetProcAddress_v2, (const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status)) {
  const CUresult result = CALL_DRIVER(cuGetProcAddress_v2, (symbol, function, version, flags, status));
  if (result == CUDA_SUCCESS) replace(symbol, function, static_cast<unsigned>(version), flags);
  return result;
}

DRIVER_HOOK(cuGetProcAddress, (const char* symbol, void** function, int version, cuuint64_t flags)) {
  const CUresult result = CALL_DRIVER(cuGetProcAddress, (symbol, function, version, flags));
  if (result == CUDA_SUCCESS) replace(symbol, function, static_cast<unsigned>(version), flags);
  return result;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // programs that call it are none the newer for it
#define ENTRY_POINT(symbol_name)                                                             \
  RUNTIME_HOOK(symbol_name, (const char* symbol, void** function, unsigned long long flags,  \
                             cudaDriverEntryPointQueryResult* status)) {                     \
    const cudaError_t result = CALL_RUNTIME(symbol_name, (symbol, function, flags, status)); \
    if (result == cudaSuccess) replace(symbol, function, runtime_version(), flags);          \
    return result;                                                                           \
  }
ENTRY_POINT(cudaGetDriverEntryPoint)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz)

#define ENTRY_POINT_BY_VERSION(symbol_name)                                                                   \
  RUNTIME_HOOK(symbol_name, (const char* symbol, void** function, unsigned version, unsigned long long flags, \
                             cudaDriverEntryPointQueryResult* status)) {                                      \
    const cudaError_t result = CALL_RUNTIME(symbol_name, (symbol, function, version, flags, status));         \
    if (result == cudaSuccess) replace(symbol, function, version, flags);                                     \
    return result;                                                                                            \
  }
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz)
