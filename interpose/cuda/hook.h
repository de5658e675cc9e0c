// How a hook of a CUDA function is written. Each is one function: what it emits before the original is called, the
// call, and what it emits of the result. It is compiled twice, and sees no difference:
//   - as the function itself, which the program calls in the original's place (interpose/cuda/intercepted_hook.h);
//   - as the body of CUPTI's two callbacks of that function, at its entry and its exit, where the "call" only hands
//     over the result, if there is one yet (cupti_tracer/callback_hook.h).
//
// Either form gives a hook:
//   RUNTIME_HOOK(symbol, (parameters)) { … }, DRIVER_HOOK(…)   its definition
//   CALL_RUNTIME(symbol, (arguments)), CALL_DRIVER(…)          the original's result. Without an original there is no
//                                                              such library in the process, and nobody who could have
//                                                              called.
//   RUNTIME_HOOK_AS(symbol, name, (parameters)), CALL_RUNTIME_AS(symbol, name, (arguments))
//                                                              the same for a hook whose C++ name is not its symbol
//   OLDER_THAN(version, symbol, name)                          whether the function called has the parameters of before
//                                                              CUDA `version` (13000): the same symbol then has others
// and the class Call, of which a hook makes one. Each of the following is false when enabled() is:
//   enabled()              nobody else emits the call's events: false in hooks while CUPTI does
//   entering()             the original has not been called yet
//   outermost()            no other hook of this thread is being called: the runtime calls the driver, and what the
//                          runtime's hook has emitted, the driver's leaves out
//   before()               both
//   after()                the original has been called: for events that need no result, but must not come early
//   value_at_entry(make)   make()'s value as it was before the original was called
//   correlation_id()       under which the call's own time comes later; 0: it does not
//   caller()               an address in the code that called the function
//   frame()                the frame of the function that it called; null where that is CUDA's own
#pragma once

#include <cstddef>
#include <string_view>

#ifdef DEVTRACE_HOOKS_AS_CALLBACKS
#include "cupti_tracer/callback_hook.h"
#else
#include "interpose/cuda/intercepted_hook.h"
#endif

// The name of the function that a symbol stands for, as a string that lives as long as the process.
#define API_NAME(symbol)                                          \
  ([]() -> const char* {                                          \
    static constexpr devtrace::interpose::ApiName kName(#symbol); \
    return kName.text;                                            \
  }())

namespace devtrace::interpose {

// What programmers call a function: its symbol without the suffixes of ABI versions and of per-thread default streams.
template <size_t N>
struct ApiName {
  char text[N] = {};
  consteval ApiName(const char (&symbol)[N]) {
    std::string_view name(symbol, N - 1);
    for (const std::string_view suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"})
      if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
    for (size_t i = 0; i < name.size(); ++i) text[i] = name[i];
  }
};

// Of a CUdeviceptr.
inline const void* pointer(unsigned long long address) {
  return reinterpret_cast<const void*>(address);
}

}  // namespace devtrace::interpose
