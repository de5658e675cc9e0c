// How a hook of a CUDA function is declared. Without an original there is no such library in the process, and nobody
// who could have called.
#pragma once

#include "interpose/original.h"

#define RUNTIME_HOOK(symbol, parameters)                    \
  extern "C" DEVTRACE_EXPORT cudaError_t symbol parameters; \
  extern "C" cudaError_t symbol parameters
#define CALL_RUNTIME(symbol, arguments) \
  (ORIGINAL(symbol) ? ORIGINAL(symbol) arguments : cudaErrorSharedObjectSymbolNotFound)

#define DRIVER_HOOK(symbol, parameters)                          \
  extern "C" DEVTRACE_EXPORT CUresult CUDAAPI symbol parameters; \
  extern "C" CUresult CUDAAPI symbol parameters
#define CALL_DRIVER(symbol, arguments) (ORIGINAL(symbol) ? ORIGINAL(symbol) arguments : CUDA_ERROR_NOT_FOUND)

namespace devtrace::interpose {

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
