// CUDA's own look-ups: cuGetProcAddress (every CUDA runtime, the statically linked ones too), cudaGetDriverEntryPoint.
// Whoever asks for a function that is intercepted gets its hook.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "interpose/cuda/hook.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/named_hooks.h"

using devtrace::interpose::NamedHook;
using devtrace::interpose::original_address;
namespace runtimes = devtrace::interpose::runtimes;

namespace {

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
const NamedHook* row_of_entry_point(std::string_view name, void* found, unsigned version, bool per_thread) {
  if (!name.starts_with("cu") || name.starts_with("cuda")) return nullptr;
  const NamedHook* best = nullptr;
  unsigned best_since = 0;
  bool best_fits = false;
  for (const NamedHook& row : devtrace::interpose::named_hooks()) {
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

void replace(const char* symbol, void** function, unsigned version, unsigned long long flags, const void* caller) {
  constexpr unsigned long long kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !function || !*function) return;
  const int saved = errno;
  const NamedHook* const row = row_of_entry_point(symbol, *function, version, (flags & kPerThread) != 0);
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
