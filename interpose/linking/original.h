// The real function behind a hook.
#pragma once

#include <link.h>

#include <array>
#include <atomic>
#include <iterator>
#include <string_view>

namespace devtrace::interpose {

enum class Symbol : int {
#define HOOK(library, symbol) symbol,
#include "interpose/linking/hooks.inc"
#undef HOOK
  count
};

struct HookRow {
  const char* library;
  const char* symbol;
};
inline constexpr HookRow kHookRows[] = {
#define HOOK(library, symbol) {library, #symbol},
#include "interpose/linking/hooks.inc"
#undef HOOK
};
constexpr const char* name_of(Symbol symbol) {
  return kHookRows[static_cast<int>(symbol)].symbol;
}
inline constexpr std::string_view kRuntime = "libcudart.so";
inline constexpr auto kOfRuntime = [] {
  std::array<bool, static_cast<size_t>(Symbol::count)> of{};
  for (size_t i = 0; i < of.size(); ++i) of[i] = kHookRows[i].library == kRuntime;
  return of;
}();
constexpr bool of_runtime(Symbol symbol) {
  return kOfRuntime[static_cast<size_t>(symbol)];
}

// Hot: the function that a hook hands on to, for the call that returns to `caller`; nullptr when the process has none.
// One load, unless there are several CUDA runtimes (interpose/linking/cuda_runtimes.h).
[[gnu::visibility("hidden")]] extern std::atomic<void*> originals[static_cast<int>(Symbol::count)];
void* find_original(Symbol symbol, const void* caller);
inline void* original_for(Symbol symbol, const void* caller) {
  void* const known = originals[static_cast<int>(symbol)].load(std::memory_order_relaxed);
  return known ? known : find_original(symbol, caller);
}
void forget_originals_of_runtime();

// Address of the next definition after ours, whoever asks; nullptr when the process has none. Cached after the first
// success.
void* original_address(Symbol symbol);

// The function of the symbol's own library, whatever stands before that; null: none. Not cached.
void* library_address(Symbol symbol);

// The same for any symbol that a loaded object called `library` (libcudart.so: with any version behind it) exports
// itself. Not cached.
void* find_in_library(const char* library, const char* symbol);

// Whether an object that is called so is there. Not cached.
bool is_loaded(const char* library);

// What this library exports under that name; null: nothing.
void* own_address(const char* symbol);

// Whether an object that the loader searches before this library exports the symbol: the program, what was preloaded
// first.
bool defined_before_us(const char* symbol);

// Whether this library was opened by the running program: then it stands behind all others in every look-up, and its
// functions are called through slots that are written (interpose/linking/imports/import_slots.h).
bool loaded_late();

// Whether an object, or the one in which an address lies, was there when the program started, not opened since.
bool was_there_at_start(const link_map& object);
bool there_at_start(const void* address);

// Whether `file` is the library whose name begins with `library` ("libcudart.so"): libcudart.so.13, and
// libcudart-8d27a8b4.so.11.0 as wheels with libraries of their own call it. A library of somebody else's has a longer
// name.
bool is_library(std::string_view file, std::string_view library);

// Whether a function is CUDA 12's runtime's: some of its functions have other parameters than CUDA 13's of the same
// name.
bool of_cuda_12(const void* function);

}  // namespace devtrace::interpose

#define DEVTRACE_EXPORT __attribute__((visibility("default")))

// In a hook itself, ORIGINAL(cudaMalloc): the real cudaMalloc that its caller means, typed like the hook of that name.
// nullptr when there is none. Asked once in a call.
#define ORIGINAL(symbol) ORIGINAL_AS(symbol, ::symbol)
// The same for a hook whose C++ name is not its symbol.
#define ORIGINAL_AS(symbol, function)    \
  reinterpret_cast<decltype(&function)>( \
      ::devtrace::interpose::original_for(::devtrace::interpose::Symbol::symbol, __builtin_return_address(0)))
