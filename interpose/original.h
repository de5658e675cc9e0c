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

// The function of the symbol's own library, whatever stands before that; null: none. Not cached.
void* library_address(Symbol symbol);

// The same for any symbol that a loaded object called `library` (libcudart.so: with any version behind it) exports
// itself. Not cached.
void* find_in_library(const char* library, const char* symbol);

// What this library exports under that name; null: nothing.
void* own_address(const char* symbol);

// Whether an object that the loader searches before this library exports the symbol: the program, what was preloaded
// first.
bool defined_before_us(const char* symbol);

// Whether the address lies in an object that was there when the program started, not in one that was opened since.
bool there_at_start(const void* address);

// Whether a function is CUDA 12's runtime's: some of its functions have other parameters than CUDA 13's of the same
// name.
bool of_cuda_12(const void* function);

}  // namespace devtrace::interpose

#define DEVTRACE_EXPORT __attribute__((visibility("default")))

// ORIGINAL(cudaMalloc): the real cudaMalloc, typed like the hook of that name. nullptr when there is none.
#define ORIGINAL(symbol) \
  reinterpret_cast<decltype(&::symbol)>(::devtrace::interpose::original_address(::devtrace::interpose::Symbol::symbol))
// The same for a hook whose C++ name is not its symbol.
#define ORIGINAL_AS(symbol, function) \
  reinterpret_cast<decltype(&function)>(::devtrace::interpose::original_address(::devtrace::interpose::Symbol::symbol))
