// A hook as the function that the program calls in the original's place; see interpose/cuda/hook.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/original.h"

#define RUNTIME_HOOK(symbol, parameters)                    \
  extern "C" DEVTRACE_EXPORT cudaError_t symbol parameters; \
  extern "C" cudaError_t symbol parameters
#define CALL_RUNTIME(symbol, arguments) CALL_ORIGINAL(ORIGINAL(symbol), arguments, cudaErrorSharedObjectSymbolNotFound)

#define RUNTIME_HOOK_AS(symbol, name, parameters)                          \
  extern "C" DEVTRACE_EXPORT cudaError_t name parameters __asm__(#symbol); \
  extern "C" cudaError_t name parameters
#define CALL_RUNTIME_AS(symbol, name, arguments) \
  CALL_ORIGINAL(ORIGINAL_AS(symbol, name), arguments, cudaErrorSharedObjectSymbolNotFound)

#define DRIVER_HOOK(symbol, parameters)                          \
  extern "C" DEVTRACE_EXPORT CUresult CUDAAPI symbol parameters; \
  extern "C" CUresult CUDAAPI symbol parameters
#define CALL_DRIVER(symbol, arguments) CALL_ORIGINAL(ORIGINAL(symbol), arguments, CUDA_ERROR_NOT_FOUND)

// `found` is looked at once: it takes what tells the caller's runtime from another (interpose/linking/cuda_runtimes.h).
#define CALL_ORIGINAL(found, arguments, absent)                 \
  __extension__({                                               \
    const auto devtrace_original = (found);                     \
    devtrace_original ? devtrace_original arguments : (absent); \
  })

// CUDA 12 and 13 are told apart by the runtime's file.
#define OLDER_THAN(version, symbol, name) \
  (devtrace::interpose::of_cuda_12<devtrace::interpose::Symbol::symbol>(__builtin_return_address(0)))

namespace devtrace::interpose {

// While another way tells the same events (cupti_tracer/) the hooks hand on and tell nothing.
inline constinit std::atomic<bool> muted{false};

template <Symbol symbol>
bool of_cuda_12(const void* caller) {
  if (cuda_runtimes::several()) return of_cuda_12(cuda_runtimes::peek_for(symbol, caller));
  static constinit std::atomic<int> known{-1};
  int answer = known.load(std::memory_order_relaxed);
  if (answer >= 0) return answer != 0;
  const void* const original = original_address(symbol);
  if (!original) return false;
  answer = of_cuda_12(original);
  known.store(answer, std::memory_order_relaxed);
  return answer != 0;
}

class InterceptedCall {
 public:
  InterceptedCall() : enabled_(!muted.load(std::memory_order_relaxed)), outermost_(enter() && enabled_) {}
  ~InterceptedCall() { depth_ -= depth_ > 0; }
  InterceptedCall(const InterceptedCall&) = delete;
  InterceptedCall& operator=(const InterceptedCall&) = delete;

  bool enabled() const { return enabled_; }
  bool entering() const { return enabled_; }
  bool outermost() const { return outermost_; }
  bool before() const { return outermost_; }
  bool after() const { return enabled_; }
  template <class Make>
  auto value_at_entry(const Make& make) const {
    return make();
  }
  uint32_t correlation_id() const { return 0; }
  [[gnu::always_inline]] const void* caller() const { return __builtin_return_address(0); }

 private:
  // A handler may have left an earlier call by siglongjmp. What is called within a call stands further down the stack.
  bool enter() {
    if (depth_ != 0 && this >= outer_) depth_ = 0;
    if (depth_ == 0) outer_ = this;
    return depth_++ == 0;
  }

  static inline thread_local constinit int depth_ = 0;
  static inline thread_local constinit const InterceptedCall* outer_ = nullptr;  // compared only
  bool enabled_;
  bool outermost_;
};
using Call = InterceptedCall;

}  // namespace devtrace::interpose
