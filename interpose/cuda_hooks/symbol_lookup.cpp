// The other ways to come by a function: dlsym (Triton, PyTorch's expandable segments), cuGetProcAddress (every CUDA
// runtime, the statically linked ones too), cudaGetDriverEntryPoint. Whoever asks for a function that is intercepted
// gets its hook.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "interpose/cuda/hook.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/elf_symbol.h"

using devtrace::interpose::original_address;
using devtrace::interpose::Symbol;
namespace runtimes = devtrace::interpose::runtimes;

namespace {

struct Row {
  std::string_view symbol;
  const char* absent;  // what dlerror says of it as of the symbol itself, and nothing is called
  Symbol index;
};

// By name: everything that is looked up in the process comes by here.
constexpr auto kRows = [] {
  std::array<Row, static_cast<size_t>(Symbol::count)> rows{
#define HOOK(library, symbol) Row{#symbol, #symbol " ", Symbol::symbol},
#include "interpose/linking/hooks.inc"
#undef HOOK
  };
  std::ranges::sort(rows, {}, &Row::symbol);
  return rows;
}();

// Most names are none of the table's from their first two characters on.
constexpr size_t kBegins = 1024;
constexpr size_t begin_of(const char* symbol) {
  return (static_cast<unsigned char>(symbol[0]) * 8u + static_cast<unsigned char>(symbol[0] ? symbol[1] : 0)) % kBegins;
}
constexpr auto kBegin = [] {
  std::array<bool, kBegins> begins{};
  for (const Row& row : kRows) begins[begin_of(row.symbol.data())] = true;
  return begins;
}();

const Row* row_of(const char* name) {
  if (!kBegin[begin_of(name)]) return nullptr;
  const std::string_view symbol(name);
  const auto row = std::ranges::lower_bound(kRows, symbol, {}, &Row::symbol);
  return row != kRows.end() && row->symbol == symbol ? &*row : nullptr;
}

// No lock and nothing initialised at first use: a look-up may come out of another one's malloc, and out of a child that
// was forked while another thread looked up.
constinit std::atomic<void*> hooks[kRows.size()]{};
void* hook_of(const Row& row) {
  std::atomic<void*>& known = hooks[&row - kRows.data()];
  void* hook = known.load(std::memory_order_relaxed);
  if (!hook) known.store(hook = devtrace::interpose::own_address(row.symbol.data()), std::memory_order_relaxed);
  return hook;
}

// Functions of which several ABIs are hooked, and the CUDA version that brought each. Whoever asks for one by its plain
// name means the newest that its own version knew.
struct Abi {
  std::string_view symbol;
  unsigned since;
};
constexpr Abi kAbis[] = {
#define ABI(symbol, since) {#symbol, since},
#include "interpose/linking/driver_abis.inc"
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

// The row of the driver's function `name` (without a version), when `found` is what the driver answered to a caller
// that was made for CUDA `version` (12080).
const Row* row_of_entry_point(std::string_view name, void* found, unsigned version, bool per_thread) {
  if (!name.starts_with("cu") || name.starts_with("cuda")) return nullptr;
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
    if (original_address(row.index) == found || devtrace::interpose::library_address(row.index) == found) return &row;
    // A driver may answer with another address than it exports, for the same function.
    const bool fits = row_per_thread == per_thread;
    const unsigned row_since = since(abi);
    if (row_since > version || row_per_thread > per_thread) continue;
    if (best && (best_fits > fits || (best_fits == fits && best_since > row_since))) continue;
    best = &row;
    best_since = row_since;
    best_fits = fits;
  }
  // Before CUDA 3.2 functions of the same names took addresses of 32 bits.
  if (version < 4000) return nullptr;
  // It may also answer with a newer ABI that no row knows: what it exports under another name is that name's.
  Dl_info info{};
  if (best && ::dladdr(found, &info) && info.dli_saddr == found && info.dli_sname && best->symbol != info.dli_sname)
    return nullptr;
  return best;
}

// Whether the caller lies in the library that holds the original: a tool that stands between this library and CUDA, and
// looks for the function that its own wrapper shall call. The hook would call the wrapper.
bool is_the_originals(const void* caller, const Row& row) {
  Dl_info asking{}, request{};
  void* const original = original_address(row.index);
  return original && ::dladdr(caller, &asking) && ::dladdr(original, &request) && asking.dli_fbase == request.dli_fbase;
}

void replace(const char* symbol, void** function, unsigned version, unsigned long long flags, const void* caller) {
  constexpr unsigned long long kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !function || !*function) return;
  const int saved = errno;
  const Row* const row = row_of_entry_point(symbol, *function, version, (flags & kPerThread) != 0);
  if (row && !is_the_originals(caller, *row))
    if (void* const hook = hook_of(*row)) *function = hook;
  errno = saved;
}

// Whoever names no version gets what the runtime whose function it called was made for; 0 while nobody knows.
unsigned version_of_runtime(void* function) {
  using Ask = int (*)(int*);
  int version = 0;
  const auto ask = reinterpret_cast<Ask>(runtimes::beside(function, "cudaRuntimeGetVersion"));
  return ask && ask(&version) == 0 ? static_cast<unsigned>(version) : 0;
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
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {  // before glibc 2.34 they are the latter's
    using devtrace::interpose::elf_symbol;
    if (!devtrace_real_dlsym) devtrace_real_dlsym = reinterpret_cast<Dlsym>(elf_symbol(library, "dlsym"));
    if (!devtrace_real_dlvsym) devtrace_real_dlvsym = reinterpret_cast<Dlvsym>(elf_symbol(library, "dlvsym"));
  }
}

namespace {

// One look-up that somebody asked for, as far as it can be repeated from here.
struct LookupRequest {
  void* handle;
  const Row& row;
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

// The hook, if that is the answer. `absent`: nothing is, as it would be without this library's exports.
void* resolve(const LookupRequest& request, bool& absent) {
  const char* const name = request.row.symbol.data();
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
  if (found != hook && !runtimes::is_trampoline(found)) {
    // Who has one runtime's function shall never get into another one's.
    void* const entry = devtrace::interpose::of_runtime(request.row.index)
                            ? runtimes::trampoline_to(request.row.index, found)
                            : nullptr;
    if (found == original_address(request.row.index)) return entry ? entry : hook;
    // Another library's function of the same name is its own affair; CUDA's behind another tool's wrapper is not.
    const bool cudas = entry || found == devtrace::interpose::library_address(request.row.index);
    if (!cudas || is_the_originals(request.caller, request.row)) return nullptr;
    return entry ? entry : hook;
  }
  absent = !there_without_us(request);
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
    runtimes::notice();
  }
  const Row* const row = *name ? row_of(*name) : nullptr;
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
// Each in the place of every version of it that the C library has had.
#define UNVERSIONED(symbol) __asm__(".symver " #symbol ", " #symbol "@@")
UNVERSIONED(dlsym);
UNVERSIONED(dlvsym);
LOOK_UP("dlsym", "devtrace_real_dlsym", "  xor %edx, %edx\n");
LOOK_UP("dlvsym", "devtrace_real_dlvsym", "");
}

// ---- CUDA's own
// --------------------------------------------------------------------------------------------------------

DRIVER_HOOK(cuGetProcAddress_v2, (const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status)) {
  const CUresult result = CALL_DRIVER(cuGetProcAddress_v2, (symbol, function, version, flags, status));
  if (result == CUDA_SUCCESS)
    replace(symbol, function, static_cast<unsigned>(version), flags, __builtin_return_address(0));
  return result;
}

DRIVER_HOOK(cuGetProcAddress, (const char* symbol, void** function, int version, cuuint64_t flags)) {
  const CUresult result = CALL_DRIVER(cuGetProcAddress, (symbol, function, version, flags));
  if (result == CUDA_SUCCESS)
    replace(symbol, function, static_cast<unsigned>(version), flags, __builtin_return_address(0));
  return result;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // programs that call it are none the newer for it
// The functions of a program that was compiled for a default stream of each thread.
constexpr unsigned long long lookup_flags(std::string_view symbol_name, unsigned long long flags) {
  const bool per_thread = flags == cudaEnableDefault && symbol_name.ends_with("_ptsz");
  return per_thread ? +CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : flags;
}
#define ENTRY_POINT(symbol_name)                                                                         \
  RUNTIME_HOOK(symbol_name, (const char* symbol, void** function, unsigned long long flags,              \
                             cudaDriverEntryPointQueryResult* status)) {                                 \
    const auto original = ORIGINAL(symbol_name);                                                         \
    const cudaError_t result =                                                                           \
        CALL_ORIGINAL(original, (symbol, function, flags, status), cudaErrorSharedObjectSymbolNotFound); \
    if (result == cudaSuccess)                                                                           \
      replace(symbol, function, version_of_runtime(reinterpret_cast<void*>(original)),                   \
              lookup_flags(#symbol_name, flags), __builtin_return_address(0));                           \
    return result;                                                                                       \
  }
ENTRY_POINT(cudaGetDriverEntryPoint)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz)

#define ENTRY_POINT_BY_VERSION(symbol_name)                                                                   \
  RUNTIME_HOOK(symbol_name, (const char* symbol, void** function, unsigned version, unsigned long long flags, \
                             cudaDriverEntryPointQueryResult* status)) {                                      \
    const cudaError_t result = CALL_RUNTIME(symbol_name, (symbol, function, version, flags, status));         \
    if (result == cudaSuccess)                                                                                \
      replace(symbol, function, version, lookup_flags(#symbol_name, flags), __builtin_return_address(0));     \
    return result;                                                                                            \
  }
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz)
