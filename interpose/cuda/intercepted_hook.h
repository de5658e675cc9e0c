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
constexpr uint32_t kMuted = 1u << 31;
inline constinit std::atomic<uint32_t> muted{0};  // that, then
inline void mute(bool now) {
  muted.store(now ? kMuted : 0);
}

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
  [[gnu::always_inline]] InterceptedCall() : around_(enter() | muted.load(std::memory_order_relaxed)) {}
  [[gnu::always_inline]] ~InterceptedCall() { calls_.depth = around_ & ~kMuted; }
  InterceptedCall(const InterceptedCall&) = delete;
  InterceptedCall& operator=(const InterceptedCall&) = delete;

  bool enabled() const { return (around_ & kMuted) == 0; }
  bool entering() const { return enabled(); }
  bool outermost() const { return around_ == 0; }
  bool before() const { return outermost(); }
  bool after() const { return enabled(); }
  template <class Make>
  auto value_at_entry(const Make& make) const {
    return make();
  }
  uint32_t correlation_id() const { return 0; }
  [[gnu::always_inline]] const void* caller() const { return __builtin_return_address(0); }
  [[gnu::always_inline]] const void* frame() const { return __builtin_frame_address(0); }

 private:
  // How many calls this one is made in. A handler may have left an earlier one by siglongjmp: what is called within a
  // call stands further down the stack.
  [[gnu::always_inline]] static uint32_t enter() {
    const void* const here = __builtin_frame_address(0);  // the hook's: this object needs no place in memory
    if (calls_.depth != 0) [[unlikely]]
      return enter_again(here);
    calls_ = {1, here};
    return 0;
  }
  [[gnu::noinline]] static uint32_t enter_again(const void* here) {
    if (here < calls_.outer) return calls_.depth++;
    calls_ = {1, here};
    return 0;
  }

  struct Calls {
    uint32_t depth;
    const void* outer;  // compared only
  };
  static inline thread_local constinit Calls calls_{};
  uint32_t around_;  // these calls, and that bit where it is not enabled
};
using Call = InterceptedCall;

}  // namespace devtrace::interpose
