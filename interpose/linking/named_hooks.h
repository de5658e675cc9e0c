// The hooks by the names of their functions, for whoever looks a function up instead of linking it: dlsym
// (interpose/linking/dlsym_hooks.cpp) and CUDA's own look-ups (interpose/cuda_hooks/proc_address.cpp). Whoever asks for
// a function that is intercepted gets its hook.
#pragma once

#include <span>
#include <string_view>

#include "interpose/linking/original.h"

namespace devtrace::interpose {

struct NamedHook {
  std::string_view symbol;
  const char* absent;  // what dlerror says of it as of the symbol itself, and nothing is called
  Symbol index;
};

// All of them, by name.
std::span<const NamedHook> named_hooks();

// Null: none is called so. Everything that is looked up in the process comes by here.
const NamedHook* hook_named(const char* name);

// The function that this library exports under the name; null: none. No lock and nothing initialised at first use: a
// look-up may come out of another one's malloc, and out of a child that was forked while another thread looked up.
void* hook_of(const NamedHook& hook);

// Whether the caller lies in the library that holds the original. That is a tool that stands between this library and
// CUDA, and looks for the function that its own wrapper shall call. The hook would call the wrapper.
bool is_the_originals(const void* caller, const NamedHook& hook);

}  // namespace devtrace::interpose
