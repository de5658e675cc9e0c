// The real function behind a hook.
#pragma once

#include <atomic>

namespace devtrace::interpose {

enum class Symbol : int {
#define HOOK(library, symbol) symbol,
#include "interpose/hooks.inc"
#undef HOOK
  count
};

// Address of the next definition after ours; nullptr when the process has none. Cached after the first success.
void* original_address(Symbol symbol);

// The same for any symbol, in any loaded object whose file name begins with `library`. Not cached.
void* find_in_library(const char* library, const char* symbol);

// Whether a function is CUDA 12's runtime's: some of its functions have other parameters than CUDA 13's of the same
// name.
bool of_cuda_12(const void* function);

// dlsym without our hook of it. RTLD_NEXT and RTLD_DEFAULT are seen from this library.
void* real_dlsym(void* handle, const char* symbol);

}  // namespace devtrace::interpose

#define DEVTRACE_EXPORT __attribute__((visibility("default")))

// ORIGINAL(cudaMalloc): the real cudaMalloc, typed like the hook of that name. nullptr when there is none.
#define ORIGINAL(symbol) \
  reinterpret_cast<decltype(&::symbol)>(::devtrace::interpose::original_address(::devtrace::interpose::Symbol::symbol))
// The same for a hook whose C++ name is not its symbol.
#define ORIGINAL_AS(symbol, function) \
  reinterpret_cast<decltype(&function)>(::devtrace::interpose::original_address(::devtrace::interpose::Symbol::symbol))
