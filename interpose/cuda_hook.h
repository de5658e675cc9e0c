// How a hook of a CUDA function is declared. Without an original there is no such library in the process, and nobody
// who could have called.
#pragma once

#include <cstddef>
#include <string_view>

#include "interpose/original.h"

#define RUNTIME_HOOK(symbol, parameters)                    \
  extern "C" DEVTRACE_EXPORT cudaError_t symbol parameters; \
  extern "C" cudaError_t symbol parameters
#define CALL_RUNTIME(symbol, arguments) \
  (ORIGINAL(symbol) ? ORIGINAL(symbol) arguments : cudaErrorSharedObjectSymbolNotFound)

// The name of the function that a symbol stands for, as a string that lives as long as the process.
#define API_NAME(symbol)                                          \
  ([]() -> const char* {                                          \
    static constexpr devtrace::interpose::ApiName kName(#symbol); \
    return kName.text;                                            \
  }())

#define DRIVER_HOOK(symbol, parameters)                          \
  extern "C" DEVTRACE_EXPORT CUresult CUDAAPI symbol parameters; \
  extern "C" CUresult CUDAAPI symbol parameters
#define CALL_DRIVER(symbol, arguments) (ORIGINAL(symbol) ? ORIGINAL(symbol) arguments : CUDA_ERROR_NOT_FOUND)

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

// The runtime calls the driver: what the outer hook has told, the inner one leaves out.
class Nested {
 public:
  Nested() : outer_(depth_++ != 0) {}
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  bool inner() const { return outer_; }

 private:
  static inline thread_local constinit int depth_ = 0;
  bool outer_;
};

}  // namespace devtrace::interpose
