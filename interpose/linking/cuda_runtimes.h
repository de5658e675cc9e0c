// Several CUDA runtimes in one process: libcudart.so.12 and libcudart.so.13, or two copies of one. Whoever calls a hook
// means one of them, that to which the dynamic linker would have bound the call without us:
//   - a call that was bound to a version of the function (cudaMalloc@libcudart.so.12) means the runtime with that
//     version. Each version has a trampoline of its own before the hook (versioned_trampolines.cpp), so that it is
//     known even where the caller's frame is gone, as of a wrapper that ends in a jump to the function;
//   - a function that was looked up in one runtime means that one: such a trampoline, too;
//   - else the object decides in which the call's return address lies: what the loader searches for it.
// With one runtime all lead to its function, and none of this is asked.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/linking/original.h"

// The entries read it; the assembler knows the name.
extern "C" __attribute__((visibility("hidden"))) std::atomic<bool> devtrace_several;

namespace devtrace::interpose::cuda_runtimes {

// Runtimes that are told apart; a further one is served like the first.
constexpr int kSlots = 4;

// Whether more than one has been seen.
inline bool several() {
  return devtrace_several.load();
}

// Looks for runtimes that have come or gone since. A second one of another version is noticed when its function is
// first called; one of the same version, or of none, only here.
void look();

// The same, if something has been loaded since. To be called where somebody may use what has just been opened.
void notice();

// Of a runtime's function, where there are several: the one that is meant by the call that returns to `caller`. Takes
// what the entry has left; `peek` leaves it for the call itself.
void* function_for(Symbol symbol, const void* caller);
void* peek_for(Symbol symbol, const void* caller);

// The entry that always leads to the runtime's own function `found`; null when it is none.
void* trampoline_to(Symbol symbol, void* found);

// Whether the address is one of the entries.
bool is_trampoline(const void* address);

// A symbol of one of the runtimes that are loaded, counted from 0; null: that one has none. False: there are no more.
bool function_of(int which, const char* symbol, void*& found);

// A symbol of the runtime that a function is of; null: it has none.
void* beside(const void* function, const char* symbol);

}  // namespace devtrace::interpose::cuda_runtimes
